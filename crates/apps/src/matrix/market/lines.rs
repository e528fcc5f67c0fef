//! Lines of a text that may be anything: bounded in length, counted, comments skipped.

use std::io::{self, BufRead, Read};

/// The longest line that is read, in bytes: far above what a number needs, far below memory.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;

/// Why there is no next line.
pub(super) enum LineFault {
    /// The reader failed.
    Read(io::Error),
    /// No line end within [`LINE_BYTES_MAX`].
    TooLong {
        /// The line, from 1.
        line: u64,
    },
}

/// The lines of a reader, one at a time in one buffer.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
    consumed_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Lines {
            reader,
            line: Vec::new(),
            number: 0,
            consumed_bytes: 0,
        }
    }

    /// Moves to the next line; false at the end of the text.
    pub(super) fn advance(&mut self) -> Result<bool, LineFault> {
        self.line.clear();
        let mut bounded = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
        let read = bounded
            .read_until(b'\n', &mut self.line)
            .map_err(LineFault::Read)?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.consumed_bytes += read as u64;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read as u64 > LINE_BYTES_MAX {
            return Err(LineFault::TooLong { line: self.number });
        }
        Ok(true)
    }

    /// Moves to the next line that is neither blank nor a comment; false at the end.
    pub(super) fn advance_to_content(&mut self) -> Result<bool, LineFault> {
        while self.advance()? {
            let line = self.line.trim_ascii_start();
            if !line.is_empty() && line[0] != b'%' {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The line as it stands, without its `\n`.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// The line's words. Bytes that are not UTF-8 make a word that no number matches.
    pub(super) fn words(&self) -> Words<'_> {
        let mut words = Words::default();
        let separated = self.line.split(u8::is_ascii_whitespace);
        for word in separated.filter(|word| !word.is_empty()) {
            if let Some(slot) = words.kept.get_mut(words.count) {
                *slot = word;
            }
            words.count += 1;
        }
        words
    }

    /// The line's number, from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far, line ends included.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }
}

/// The first four words of a line and how many there are: no line of the format has more.
#[derive(Default)]
pub(super) struct Words<'a> {
    kept: [&'a [u8]; 4],
    count: usize,
}

impl<'a> Words<'a> {
    /// How many words the line has, those beyond the fourth included.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The words, where there are exactly `N`.
    pub(super) fn exactly<const N: usize>(&self) -> Option<[&'a [u8]; N]> {
        if self.count != N {
            return None;
        }
        self.kept.get(..N)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_blanks_and_comments_and_counts_every_line() {
        let mut lines = Lines::new(&b"a b\r\n\r\n  % c\n\n x  y z w v \n%"[..]);
        assert!(matches!(lines.advance_to_content(), Ok(true)));
        assert_eq!(lines.words().exactly::<2>(), Some([&b"a"[..], b"b"]));
        assert!(matches!(lines.advance_to_content(), Ok(true)));
        assert_eq!((lines.number(), lines.words().count()), (5, 5));
        assert!(lines.words().exactly::<4>().is_none());
        assert!(matches!(lines.advance_to_content(), Ok(false)));
        assert_eq!(lines.number(), 6);
    }

    #[test]
    fn a_line_of_the_limit_passes_and_one_byte_more_does_not() {
        let mut text = vec![b'x'; LINE_BYTES_MAX as usize];
        text.push(b'\n');
        assert!(matches!(Lines::new(&text[..]).advance(), Ok(true)));
        text.insert(0, b'x');
        assert!(matches!(
            Lines::new(&text[..]).advance(),
            Err(LineFault::TooLong { line: 1 })
        ));
    }
}
