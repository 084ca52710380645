//! Adding Harbor's own member to a frame without parsing or re-serialising it.
//!
//! Stands at delivery: a receiver that must be told something gets the sender's bytes with
//! `"harbor":{…}` before the closing brace. A message needing none of it is forwarded untouched.

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
