//! Forwards from ports of the gateway to services of the caller.

use std::str::FromStr;

/// `PORT=HOST:PORT`: target of connections to a port of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Port of the gateway.
    pub port: u16,
    /// Target `HOST:PORT`, resolved by the caller.
    pub to: String,
}

impl FromStr for Forward {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("cannot read \"{text}\": write PORT=HOST:PORT");
        let (port, to) = text.split_once('=').ok_or_else(wrong)?;
        let (host, far_port) = to.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let far_port: u16 = far_port.parse().map_err(|_| wrong())?;
        if port == 0 || far_port == 0 || host.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            port,
            to: to.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read() {
        let forward: Forward = "80=web.example:8080".parse().unwrap();
        assert_eq!(
            (forward.port, forward.to.as_str()),
            (80, "web.example:8080")
        );
        assert!("443=[::1]:8443".parse::<Forward>().is_ok());
        for bad in [
            "", "80", "80=", "80=host", "0=a:1", "a=b:1", "80=:1", "1=a:0",
        ] {
            let e = bad.parse::<Forward>().unwrap_err();
            assert!(e.contains("PORT=HOST:PORT"), "{bad}: {e}");
        }
    }
}
