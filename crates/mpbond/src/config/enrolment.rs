//! Enrolment tokens that a proxy accepts: `identity.enrol` beside `identity.pem`.
//!
//! One token per line: the hash of its secret, when it was made and its expiry (seconds since 1970,
//! with a hyphen between them), the number of uses left, and a name for the device; `#` begins a
//! comment line. `mpbond proxy enrol` writes it, and so does the daemon when a token is used. From
//! the file alone no token can be made. Lines of older programs have the expiry alone.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::file;
use super::source::ConfigError;

const EXTENSION: &str = "enrol";
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of tokens; more are the work of a faulty script.
const MAX_TOKENS: usize = 1000;
/// How far the clock may have gone back since a token was made, as it does when it is corrected.
const BACK_SECONDS: u64 = 300;
/// How long used and expired tokens are kept, so that a late bearer gets the reason.
const KEPT_SECONDS: u64 = 7 * 24 * 3600;
const HEADER: &str = "\
# Tokens that this proxy takes: hash, from when and until when, how often it may be used, for whom.
# `mpbond proxy enrol` makes one; deleting its line takes it back.
";

/// A token as the proxy stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// Hash of its secret ([`mpbond_net::pairing::EnrolmentSecret::hash`]).
    pub hash: [u8; 32],
    /// Time of its making, seconds since 1970.
    pub made_s: u64,
    /// Expiry, seconds since 1970.
    pub expires_s: u64,
    /// Number of uses left.
    pub uses: u32,
    /// Name given to the device; may be empty.
    pub name: String,
}

/// Reason to refuse a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// It was not made here, or was removed after its time.
    #[error("an unknown token")]
    Unknown,
    /// It has expired.
    #[error("a token that has expired")]
    Expired,
    /// The clock was ahead when it was made, so that it would be good for longer than was meant, or
    /// is behind now.
    #[error(
        "a token of a later time than now: this proxy's clock was ahead, or is behind; set it, and \
         make another token"
    )]
    Early,
    /// It has no uses left.
    #[error("a token that has been used")]
    Used,
}

/// The file.
#[derive(Clone, Debug)]
pub struct EnrolmentBook {
    path: PathBuf,
}

impl EnrolmentBook {
    /// The book of the proxy whose identity is in this file.
    pub fn beside(identity: &Path) -> Self {
        Self {
            path: identity.with_extension(EXTENSION),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether any token could be accepted now, or refused with a reason.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_open(&self, now_s: u64) -> Result<bool, ConfigError> {
        let tokens = self.tokens()?;
        Ok(tokens.iter().any(|t| t.is_remembered(now_s)))
    }

    /// Adds a token.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds too many.
    pub fn add(&self, token: Enrolment, now_s: u64) -> Result<(), ConfigError> {
        let _lock = self.lock()?;
        let mut tokens = self.tokens()?;
        tokens.retain(|t| t.is_remembered(now_s));
        if tokens.len() >= MAX_TOKENS {
            let problem = format_args!("{MAX_TOKENS} tokens are the limit");
            return Err(ConfigError::about_file(&self.path, problem));
        }
        tokens.push(token);
        self.write(&tokens)
    }

    /// Takes one use off a token, except for a device that `is_trusted` already: it has used this
    /// token before and missed the answer, or needs none. Returns the name that the token was made
    /// for, or the reason to refuse it.
    ///
    /// # Errors
    /// When the file cannot be read or written: then nothing has been used.
    pub fn redeem(
        &self,
        hash: &[u8; 32],
        is_trusted: bool,
        now_s: u64,
    ) -> Result<Result<String, TokenProblem>, ConfigError> {
        let _lock = self.lock()?;
        let mut tokens = self.tokens()?;
        let Some(token) = tokens.iter_mut().find(|t| t.hash == *hash) else {
            return Ok(Err(TokenProblem::Unknown));
        };
        let name = token.name.clone();
        match token.good(now_s) {
            Ok(()) | Err(TokenProblem::Used) if is_trusted => return Ok(Ok(name)),
            Ok(()) => token.uses -= 1,
            Err(problem) => return Ok(Err(problem)),
        }
        self.write(&tokens)?;
        Ok(Ok(name))
    }

    fn unread(&self, e: &io::Error) -> ConfigError {
        ConfigError::about_file(&self.path, format_args!("cannot be read: {e}"))
    }

    fn unwritten(&self, what: &str, e: &io::Error) -> ConfigError {
        ConfigError::unwritten(&self.path, format_args!("cannot be {what}: {e}"))
    }

    fn lock(&self) -> Result<File, ConfigError> {
        file::lock(&self.path).map_err(|e| self.unwritten("locked", &e))
    }

    fn tokens(&self) -> Result<Vec<Enrolment>, ConfigError> {
        let text = file::read(&self.path, MAX_FILE_BYTES).map_err(|e| self.unread(&e))?;
        let text = text.unwrap_or_default();
        let lines = text.lines().zip(1..);
        let lines = lines.filter(|(l, _)| !l.trim().is_empty() && !l.trim().starts_with('#'));
        lines
            .map(|(line, number)| {
                Enrolment::parse(line)
                    .map_err(|problem| format!("{problem}: repair or remove this line"))
                    .map_err(|problem| ConfigError::at_line(&self.path, number, problem))
            })
            .collect()
    }

    fn write(&self, tokens: &[Enrolment]) -> Result<(), ConfigError> {
        let mut text = HEADER.to_owned();
        for t in tokens {
            for octet in t.hash {
                // Writing to a string cannot fail.
                let _ = write!(text, "{octet:02x}");
            }
            let line = format!(" {}-{} {} {}", t.made_s, t.expires_s, t.uses, t.name);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        file::replace(&self.path, &text).map_err(|e| self.unwritten("written", &e))
    }
}

impl Enrolment {
    fn is_remembered(&self, now_s: u64) -> bool {
        self.expires_s.saturating_add(KEPT_SECONDS) > now_s
    }

    /// Whether it may be used now.
    fn good(&self, now_s: u64) -> Result<(), TokenProblem> {
        if self.uses == 0 {
            return Err(TokenProblem::Used);
        }
        if self.expires_s <= now_s {
            return Err(TokenProblem::Expired);
        }
        if self.made_s > now_s.saturating_add(BACK_SECONDS) {
            return Err(TokenProblem::Early);
        }
        Ok(())
    }

    fn parse(line: &str) -> Result<Self, &'static str> {
        let mut parts = line.trim().splitn(4, ' ');
        let hash = parts.next().and_then(unhex).ok_or("no hash of a token")?;
        // Without the time when it was made: a line of an older program.
        let times = parts.next().map(|p| p.split_once('-').unwrap_or(("0", p)));
        let times = times.and_then(|(made, end)| Some((made.parse().ok()?, end.parse().ok()?)));
        let (made_s, expires_s) = times.ok_or("no time when the token expires")?;
        let uses = parts.next().and_then(|p| p.parse().ok());
        Ok(Self {
            hash,
            made_s,
            expires_s,
            uses: uses.ok_or("no number of uses")?,
            name: parts.next().unwrap_or_default().trim().to_owned(),
        })
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let pairs: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |all, digit| all << 4 | digit))
        .collect();
    // 64 digits, not 63.
    (text.len() == 64).then(|| pairs.try_into().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn token(n: u8, uses: u32) -> Enrolment {
        Enrolment {
            hash: [n; 32],
            made_s: NOW,
            expires_s: NOW + 3600,
            uses,
            name: format!("laptop {n}"),
        }
    }

    fn book() -> (tempfile::TempDir, EnrolmentBook) {
        let folder = tempfile::tempdir().unwrap();
        let book = EnrolmentBook::beside(&folder.path().join("identity.pem"));
        (folder, book)
    }

    #[test]
    fn a_token_is_good_as_often_as_it_says_until_it_expires() {
        let (_folder, book) = book();
        assert!(!book.is_open(NOW).unwrap());
        book.add(token(1, 1), NOW).unwrap();
        book.add(token(2, 2), NOW).unwrap();
        let redeem = |n: u8, at| book.redeem(&[n; 32], false, at).unwrap();
        assert_eq!(redeem(1, NOW), Ok("laptop 1".to_owned()));
        assert_eq!(redeem(1, NOW), Err(TokenProblem::Used));
        assert_eq!(redeem(3, NOW), Err(TokenProblem::Unknown));
        assert_eq!(redeem(2, NOW), Ok("laptop 2".to_owned()));
        assert!(book.is_open(NOW).unwrap());
        assert_eq!(redeem(2, NOW + 3600), Err(TokenProblem::Expired));
        assert_eq!(redeem(2, NOW + 3599), Ok("laptop 2".to_owned()));
        assert!(
            book.is_open(NOW).unwrap(),
            "all are used, and their bearers shall be told"
        );
        assert!(!book.is_open(NOW + 3600 + KEPT_SECONDS).unwrap());
        // Removed after a week.
        book.add(token(4, 1), NOW + 3600 + KEPT_SECONDS).unwrap();
        assert_eq!(redeem(1, NOW), Err(TokenProblem::Unknown));
    }

    #[test]
    fn a_device_that_is_trusted_uses_nothing_up() {
        let (_folder, book) = book();
        book.add(token(1, 2), NOW).unwrap();
        let redeem = |is_trusted, at| book.redeem(&[1; 32], is_trusted, at).unwrap();
        let named = Ok("laptop 1".to_owned());
        assert_eq!(redeem(false, NOW), named);
        // The answer was lost.
        assert_eq!(redeem(true, NOW), named);
        assert_eq!(redeem(false, NOW), named);
        assert_eq!(redeem(false, NOW), Err(TokenProblem::Used));
        assert_eq!(redeem(true, NOW + 3600), named);
        book.add(token(2, 1), NOW).unwrap();
        let late = book.redeem(&[2; 32], true, NOW + 3600).unwrap();
        assert_eq!(late, Err(TokenProblem::Expired));
        let unknown = book.redeem(&[3; 32], true, NOW).unwrap();
        assert_eq!(unknown, Err(TokenProblem::Unknown));
    }

    #[test]
    fn a_token_of_a_clock_that_was_ahead_is_refused_until_its_time() {
        let (_folder, book) = book();
        book.add(token(1, 2), NOW).unwrap();
        let redeem = |at| book.redeem(&[1; 32], false, at).unwrap();
        assert_eq!(redeem(NOW - 365 * 24 * 3600), Err(TokenProblem::Early));
        assert_eq!(redeem(NOW - BACK_SECONDS - 1), Err(TokenProblem::Early));
        assert!(redeem(NOW - BACK_SECONDS).is_ok() && redeem(NOW).is_ok());
    }

    #[test]
    fn it_is_the_owners_and_a_bad_line_is_named_and_opens_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, book) = book();
        book.add(token(1, 1), NOW).unwrap();
        let mode = std::fs::metadata(book.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let good = std::fs::read_to_string(book.path()).unwrap();
        let hash = "01".repeat(32);
        for bad in [
            "nonsense".to_owned(),
            format!("{} 1800000000-1900000000 1", &hash[1..]),
            format!("{hash} tomorrow 1"),
            format!("{hash} 1800000000- 1"),
            format!("{hash} -1900000000 1"),
            format!("{hash} 1800000000-1900000000 -1"),
            format!("{hash} 1800000000-1900000000"),
        ] {
            std::fs::write(book.path(), format!("{good}{bad}\n")).unwrap();
            assert!(book.is_open(NOW).is_err(), "{bad}");
            let error = book.redeem(&[1; 32], false, NOW).unwrap_err().to_string();
            assert!(error.contains("identity.enrol:4: no "), "{error}");
        }
    }

    #[test]
    fn a_line_of_an_older_program_is_accepted_and_written_anew() {
        let (_folder, book) = book();
        let hash = "01".repeat(32);
        std::fs::write(book.path(), format!("{hash} {} 2 laptop 1\n", NOW + 3600)).unwrap();
        let redeem = |at| book.redeem(&[1; 32], false, at).unwrap();
        assert_eq!(redeem(NOW + 3600), Err(TokenProblem::Expired));
        assert_eq!(redeem(NOW), Ok("laptop 1".to_owned()));
        let text = std::fs::read_to_string(book.path()).unwrap();
        let line = format!("{hash} 0-{} 1 laptop 1", NOW + 3600);
        assert_eq!(text.lines().last(), Some(line.as_str()));
        assert_eq!(redeem(NOW), Ok("laptop 1".to_owned()));
        assert_eq!(redeem(NOW), Err(TokenProblem::Used));
    }

    #[test]
    fn two_bearers_at_once_get_one_use() {
        let (_folder, book) = book();
        book.add(token(1, 1), NOW).unwrap();
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let book = book.clone();
                std::thread::spawn(move || book.redeem(&[1; 32], false, NOW).unwrap().is_ok())
            })
            .collect();
        let taken = tries.into_iter().map(|t| t.join().unwrap());
        assert_eq!(taken.filter(|taken| *taken).count(), 1);
    }
}
