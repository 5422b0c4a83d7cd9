//! Integers at the start of a text.

/// Value of the leading decimal digits; `None` without any.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let mut value = None;
    for b in text {
        if !b.is_ascii_digit() {
            break;
        }
        value = Some(
            value
                .unwrap_or(0u64)
                .checked_mul(10)?
                .checked_add(u64::from(b - b'0'))?,
        );
    }
    value
}

/// Value of the leading hexadecimal digits; `None` without any.
pub(super) fn hex(text: &[u8]) -> Option<u64> {
    let mut value = None;
    for b in text {
        let Some(d) = char::from(*b).to_digit(16) else {
            break;
        };
        value = Some(
            value
                .unwrap_or(0u64)
                .checked_mul(16)?
                .checked_add(u64::from(d))?,
        );
    }
    value
}
