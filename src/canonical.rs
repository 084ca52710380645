//! The bytes a signature covers: the canonical form (RFC 8785, JCS) of an envelope without its
//! `signature` and `harbor` members.
//!
//! Stands before signing at the sender and before verifying in Harbor and at the receiver. A frame
//! that is canonical already is only looked through and covered piece by piece; any other is read
//! and written anew.

mod number;
mod scan;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, value::RawValue};

use crate::refusal::{Code, Refusal};

/// Members that no signature covers: it cannot cover itself, and Harbor adds its own on the way.
const NOT_COVERED: [&str; 2] = ["signature", "harbor"];

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
    /// [`Code::UnsafeNumber`] for a number that readers would not agree on: an integer beyond
    /// ±(2^53 − 1), or one with more digits than an IEEE 754 double keeps; [`Code::DuplicateKey`];
    /// [`Code::Malformed`] for what is no JSON object.
    pub fn of(frame: &'f str) -> Result<Self, Refusal> {
        match scan::canonical_pieces(frame) {
            Some(pieces) => Ok(SigningInput {
                pieces: pieces.map(Cow::Borrowed),
            }),
            None => Self::rewritten(frame),
        }
    }

    fn rewritten(frame: &str) -> Result<Self, Refusal> {
        let no_object = |error| Refusal::new(Code::Malformed, format!("not canonical: {error}"));
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(frame).map_err(no_object)?;
        let mut values = BTreeMap::new();
        for (key, value) in members {
            if NOT_COVERED.contains(&key.as_str()) {
                continue;
            }
            crate::json::check_duplicate_keys(&key, value)?;
            if let Some(number) = number::first_unsafe(value.get()) {
                let reason = format!(
                    "{number} in {key} is not a number every reader understands alike; sign it as a string"
                );
                return Err(Refusal::of_field(Code::UnsafeNumber, key, reason));
            }
            let value: Value = serde_json::from_str(value.get()).map_err(no_object)?;
            values.insert(key, value);
        }
        let whole = serde_json_canonicalizer::to_string(&values).map_err(no_object)?;
        Ok(SigningInput {
            pieces: [Cow::Owned(whole), Cow::Borrowed(""), Cow::Borrowed("")],
        })
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

#[cfg(test)]
mod tests;
