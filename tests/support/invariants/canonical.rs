//! What holds for what a signature covers. Panics where it does not hold.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
use synapse::{
    Code,
    canonical::SigningInput,
    json::{check_duplicate_keys, check_text},
};

/// Reads what a signature over `bytes` would cover: `ok`, a refusal's code, `bytes` for what is not
/// UTF-8, or `malformed` for what is no JSON object that decoding would take.
///
/// # Panics
///
/// When it differs from what a general library of the canonical form makes of it, by the way the
/// frame is spelled, or from itself.
pub fn check(bytes: &[u8]) -> &'static str {
    let Ok(frame) = std::str::from_utf8(bytes) else {
        return "bytes";
    };
    let covered = covered(frame);
    let Some(members) = members(frame) else {
        return "malformed";
    };
    // White space behind it changes nothing but which way it is read.
    let spaced = format!("{frame} ");
    assert_eq!(self::covered(&spaced), covered, "{frame}");
    let text = match covered {
        Ok(text) => text,
        Err(code) => {
            let known = [Code::DuplicateKey, Code::UnsafeNumber].contains(&code);
            assert!(known, "{code} for {frame}");
            return code.row().wire;
        }
    };
    let mut values = BTreeMap::new();
    for (key, value) in members {
        if !["signature", "harbor"].contains(&key.as_str()) {
            check_duplicate_keys(&key, value).unwrap();
            values.insert(key, serde_json::from_str::<Value>(value.get()).unwrap());
        }
    }
    let by_library = serde_json_canonicalizer::to_string(&values).unwrap();
    assert_eq!(text, by_library, "{frame}");
    match self::covered(&text) {
        Ok(again) => assert_eq!(again, text, "{frame}"),
        // An integer that was written as a float, such as 1e20, is refused when written in full.
        Err(code) => assert_eq!(code, Code::UnsafeNumber, "{frame}"),
    }
    "ok"
}

fn covered(frame: &str) -> Result<String, Code> {
    let input = SigningInput::of(frame).map_err(|refusal| refusal.code)?;
    let pieces: Vec<&[u8]> = input.pieces().collect();
    assert_eq!(pieces.concat(), input.to_text().as_bytes());
    Ok(input.to_text())
}

/// The members of a JSON object, without those that are not there twice.
fn members(frame: &str) -> Option<BTreeMap<String, &RawValue>> {
    check_text(frame).ok()?;
    serde_json::from_str(frame).ok()
}
