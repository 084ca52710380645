//! The bytes a signature covers: the canonical form (RFC 8785, JCS) of an envelope without its
//! `signature` and `harbor` members.
//!
//! Stands before signing at the sender and before verifying in Harbor and at the receiver. A frame
//! that is canonical already is only looked through and covered piece by piece; any other is read
//! and written anew.

mod number;
mod rewrite;
mod scan;
mod text;

use std::{borrow::Cow, cmp::Ordering, fmt};

use crate::refusal::Refusal;

/// What a signature covers, in pieces that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningInput<'f> {
    pieces: [Cow<'f, str>; 3],
}

impl<'f> SigningInput<'f> {
    /// Reads a frame that was decoded ([`crate::Envelope::decode`]), or would be.
    ///
    /// # Errors
    ///
    /// [`crate::Code::UnsafeNumber`] for a number that readers would not agree on: an integer beyond
    /// ±(2^53 − 1), or one with more digits than an IEEE 754 double keeps; [`crate::Code::DuplicateKey`];
    /// [`crate::Code::TooDeep`]; [`crate::Code::Malformed`] for what is no JSON object.
    pub fn of(frame: &'f str) -> Result<Self, Refusal> {
        let pieces = match scan::canonical_pieces(frame) {
            Some(pieces) => pieces.map(Cow::Borrowed),
            None => [rewrite::rewritten(frame)?.into(), "".into(), "".into()],
        };
        Ok(SigningInput { pieces })
    }

    /// The same, of a frame that may have been looked through when it was decoded.
    pub(crate) fn of_decoded(frame: &'f str, covered: Covered<'f>) -> Result<Self, Refusal> {
        match covered.0 {
            Some(seen) if std::ptr::eq(seen.frame, frame) => Ok(SigningInput {
                pieces: seen.pieces.map(Cow::Borrowed),
            }),
            _ => Self::of(frame),
        }
    }

    /// A text as it is, which need be no envelope: what the RFCs sign is none.
    #[cfg(test)]
    pub(crate) fn of_any(text: &'f str) -> Self {
        let rest = Cow::Borrowed("");
        SigningInput {
            pieces: [Cow::Borrowed(text), rest.clone(), rest],
        }
    }

    /// The pieces, as UTF-8.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| piece.as_bytes())
    }

    /// All of it in one text.
    pub fn to_text(&self) -> String {
        self.pieces.concat()
    }
}

/// What the signature of a canonical frame covers, as decoding saw it. An envelope carries it, so
/// that verifying does not look through the same bytes again; it is believed of that very frame only,
/// the same bytes in the same place, which the envelope borrows.
#[derive(Clone, Copy, Default)]
pub struct Covered<'f>(Option<Seen<'f>>);

#[derive(Clone, Copy)]
struct Seen<'f> {
    frame: &'f str,
    pieces: [&'f str; 3],
}

impl<'f> Covered<'f> {
    /// Looks through a frame that was decoded. `None` if it is not canonical; if it is, no key in it
    /// is given twice and no number is beyond what readers understand alike.
    pub(crate) fn of_canonical(frame: &'f str) -> Option<Self> {
        let pieces = scan::canonical_pieces(frame)?;
        Some(Covered(Some(Seen { frame, pieces })))
    }
}

impl fmt::Debug for Covered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Covered")
    }
}

/// Whether a signature covers this member of an envelope: it cannot cover itself, and Harbor adds
/// its own on the way.
fn is_covered(key: &str) -> bool {
    !matches!(key, "signature" | "harbor")
}

/// Whether key `a` stands before `b`.
fn is_before(a: &str, b: &str) -> bool {
    utf16_order(a, b).is_lt()
}

/// The order of keys: by UTF-16 units (RFC 8785 section 3.2.3). That is the order of their bytes, but
/// for U+E000 to U+FFFF, whose UTF-8 begins with EE or EF: surrogates, F0 and later here, go before.
fn utf16_order(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| match byte {
        0xEE | 0xEF => byte + 0x10,
        _ => byte,
    };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

#[cfg(test)]
mod tests;
