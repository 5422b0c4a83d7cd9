//! Kernel symbols, in the format of `/proc/kallsyms`: `ffffffff810a0b10 t hrtimer_wakeup`.

use std::cell::OnceCell;

/// Kernel symbols by address. There are about 200,000 and most traces need none, so they are
/// parsed and sorted when the first symbol is looked up.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols {
    text: Vec<u8>,
    sorted: OnceCell<Vec<Place>>,
}

/// A symbol: address, and start and end of its name in the text.
type Place = (u64, u32, u32);

impl KernelSymbols {
    /// Symbols of a kallsyms text, parsed on first use.
    pub(super) fn of(text: &[u8]) -> Self {
        Self {
            text: text.to_vec(),
            sorted: OnceCell::new(),
        }
    }

    /// Name of the symbol that contains an address; empty if there is none.
    pub(super) fn name(&self, address: u64) -> &[u8] {
        let sorted = self.sorted.get_or_init(|| places(&self.text));
        let behind = sorted.partition_point(|s| s.0 <= address);
        let Some((_, from, to)) = behind.checked_sub(1).and_then(|i| sorted.get(i)) else {
            return &[];
        };
        let place = *from as usize..*to as usize;
        self.text.get(place).unwrap_or_default()
    }
}

/// Invalid lines are skipped. Without the privilege to see addresses (kptr_restrict), the kernel
/// prints zeros, which identify no symbol.
fn places(text: &[u8]) -> Vec<Place> {
    let mut list = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive(|b| *b == b'\n') {
        let start = at;
        at += line.len();
        let mut words = line
            .trim_ascii_end()
            .split(|b| matches!(b, b' ' | b'\t'))
            .filter(|w| !w.is_empty());
        let (Some(address), Some(_kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let address = std::str::from_utf8(address)
            .ok()
            .and_then(|a| u64::from_str_radix(a, 16).ok());
        // Offset of the name slice in the text.
        let begin = start + (name.as_ptr() as usize - line.as_ptr() as usize);
        let place = u32::try_from(begin)
            .ok()
            .zip(u32::try_from(begin + name.len()).ok());
        if let (Some(address @ 1..), Some((from, to))) = (address, place) {
            list.push((address, from, to));
        }
    }
    list.sort_by_key(|s| s.0);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_resolve_to_symbols() {
        let s = KernelSymbols::of(
            b"ffffffff81000200 t second\nffffffff81000100 T first\t[module]\nnonsense\n\n\
             ffffffff81000300 D last",
        );
        for (address, name) in [
            (0xffff_ffff_8100_0100, "first"),
            (0xffff_ffff_8100_01ff, "first"),
            (0xffff_ffff_8100_0200, "second"),
            (u64::MAX, "last"),
            (0x1000, ""),
        ] {
            assert_eq!(s.name(address), name.as_bytes(), "{address:x}");
        }
        // Output for unprivileged users.
        let hidden = KernelSymbols::of(b"0000000000000000 T first\n0000000000000000 t second\n");
        assert_eq!(hidden.name(0xffff_ffff_8100_0100), b"");
    }
}
