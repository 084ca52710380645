//! Adding members to a frame, or giving them other values, without re-serialising it.
//!
//! Stands at delivery: a receiver that must be told something gets the sender's bytes with
//! `"harbor":{…}` before the closing brace; one that gets another payload, the rest of the sender's
//! bytes around it. A message needing none of it is forwarded untouched.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The frame with `"harbor":member` as its last member. `frame` is an envelope that was decoded,
/// so it ends in a brace (and maybe white space) and has members; `member` is a JSON object.
///
/// Bytes before the brace are copied unchanged, so the payload and any signature stay as they were.
pub fn splice_harbor(frame: &str, member: &str) -> String {
    let body = frame.trim_end_matches([' ', '\t', '\n', '\r']);
    let body = body.strip_suffix('}').unwrap_or(body);
    let mut spliced = String::with_capacity(body.len() + member.len() + 12);
    spliced.push_str(body);
    spliced.push_str(",\"harbor\":");
    spliced.push_str(member);
    spliced.push('}');
    spliced
}

/// The frame with these members, each a name without escapes and JSON: in the place of the value that
/// it has there, or else at the end, in the order given. All other bytes are copied unchanged, white
/// space behind the closing brace left out. `frame` is an envelope that was decoded.
///
/// # Errors
///
/// When `frame` is no JSON object.
pub fn replace_members(frame: &str, members: &[(&str, &str)]) -> serde_json::Result<String> {
    let mut reader = serde_json::Deserializer::from_str(frame);
    let mut places = (&mut reader).deserialize_map(Places { frame, members })?;
    places.sort_unstable_by_key(|(_, place)| place.start);
    let more: usize = members.iter().map(|(k, v)| k.len() + v.len() + 4).sum();
    let mut made = String::with_capacity(frame.len() + more + 1);
    let mut from = 0;
    for (at, place) in &places {
        made.push_str(&frame[from..place.start]);
        made.push_str(members[*at].1);
        from = place.end;
    }
    let rest = frame[from..].trim_end_matches([' ', '\t', '\n', '\r']);
    made.push_str(rest.strip_suffix('}').unwrap_or(rest));
    for (at, (name, value)) in members.iter().enumerate() {
        if places.iter().all(|(placed, _)| *placed != at) {
            made.push_str(",\"");
            made.push_str(name);
            made.push_str("\":");
            made.push_str(value);
        }
    }
    made.push('}');
    Ok(made)
}

/// Finds where the values of these members stand.
struct Places<'f> {
    frame: &'f str,
    members: &'f [(&'f str, &'f str)],
}

/// A key, borrowed where it holds no escapes.
#[derive(Deserialize)]
struct Name<'f>(#[serde(borrow)] Cow<'f, str>);

impl<'f> Visitor<'f> for Places<'f> {
    /// Which member, and where in the frame.
    type Value = Vec<(usize, Range<usize>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'f>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut places = Vec::with_capacity(self.members.len());
        while let Some((Name(key), value)) = map.next_entry::<Name<'f>, &'f RawValue>()? {
            if let Some(at) = self.members.iter().position(|(name, _)| *name == key) {
                let start = value.get().as_ptr() as usize - self.frame.as_ptr() as usize;
                places.push((at, start..start + value.get().len()));
            }
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_replaced_in_its_place_or_put_at_the_end() {
        let frame = "{ \"a\" :\t[1.50, {\"b\":0}] , \"b\":\"x\",\"\\u0063\":null,\"é\":1e2 } \n";
        for (members, expected) in [
            (
                &[][..],
                "{ \"a\" :\t[1.50, {\"b\":0}] , \"b\":\"x\",\"\\u0063\":null,\"é\":1e2 }",
            ),
            (
                &[("c", "3"), ("b", "{}"), ("d", "4"), ("e", "5")],
                "{ \"a\" :\t[1.50, {\"b\":0}] , \"b\":{},\"\\u0063\":3,\"é\":1e2 ,\"d\":4,\"e\":5}",
            ),
            (
                &[("é", "\"long\""), ("a", "")],
                "{ \"a\" :\t , \"b\":\"x\",\"\\u0063\":null,\"é\":\"long\" }",
            ),
        ] {
            assert_eq!(replace_members(frame, members).unwrap(), expected);
        }
        assert!(replace_members("[1]", &[]).is_err());
        assert!(replace_members("{", &[]).is_err());
    }
}
