//! Words of shell commands, for commands in messages.

use std::borrow::Cow;

/// A word of a command line, in single quotes where a shell would read it otherwise as something
/// else (POSIX.1-2017, Shell Command Language, section 2.2).
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@,+%=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_quotes_and_patterns_are_quoted() {
        for (word, quoted) in [
            ("/etc/mpbond/primary.toml", "/etc/mpbond/primary.toml"),
            ("10.42.0.1:4435", "10.42.0.1:4435"),
            ("/home/jürgen", "/home/jürgen"),
            ("", "''"),
            ("my conf", "'my conf'"),
            ("my conf's", r"'my conf'\''s'"),
            ("$HOME/`x`", "'$HOME/`x`'"),
            ("[fd00::1]:4435", "'[fd00::1]:4435'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
