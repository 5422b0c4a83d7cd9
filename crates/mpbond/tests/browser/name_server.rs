//! A name server: hosts in `one.test` have the origin's addresses, others do not exist.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mpbond_testing::names::serve;

/// The origin's addresses, public ones.
pub const V4: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
pub const V6: Ipv6Addr = Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0, 0, 1);

/// Starts it at the origin's IPv4 address. Hosts whose names begin with `v4` or `v6` have an
/// address of this family alone.
pub fn start() {
    serve(V4, |query| {
        let name = query.name();
        if !name.ends_with("one.test") {
            return Some(query.no_such_name());
        }
        let mut addresses: Vec<IpAddr> = vec![V4.into(), V6.into()];
        addresses.retain(|address| match address {
            IpAddr::V4(_) => !name.starts_with("v6"),
            IpAddr::V6(_) => !name.starts_with("v4"),
        });
        Some(query.answer(&addresses))
    });
}
