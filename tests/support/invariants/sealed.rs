//! What holds for every sealed payload. Panics where it does not hold.

use serde_json::value::RawValue;
use synapse::{
    Envelope,
    envelope::Endpoint,
    keys::{Keyring, SealingKey},
    sealed,
};

/// Opens `bytes` as the payload of message `m-1` from `alice` to `bob`, with key `s`, 32 times the
/// byte 7: `ok`, `closed` if it does not open, or `bytes` for what is no JSON.
///
/// # Panics
///
/// When a payload opens in two envelopes, or opens to what decoding would refuse.
pub fn check(bytes: &[u8]) -> &'static str {
    let text = std::str::from_utf8(bytes).ok();
    let Some(payload) = text.and_then(|text| RawValue::from_string(text.to_owned()).ok()) else {
        return "bytes";
    };
    let keys = keys();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut envelope = Envelope::new("chat").to("bob").payload(payload);
    envelope.id = "m-1".into();
    envelope.sender = Endpoint::new("alice");
    envelope.encrypt = true;
    let Ok(opened) = sealed::open(&envelope, &keys, now) else {
        return "closed";
    };
    assert_eq!(opened.kid, "s");
    synapse::json::check_text(opened.payload.get()).unwrap();
    let changes: [fn(&mut Envelope<'static>); 4] = [
        |envelope| envelope.id = "m-2".into(),
        |envelope| envelope.sender = Endpoint::new("mallory"),
        |envelope| envelope.receiver = Some(Endpoint::new("mallory")),
        |envelope| (envelope.receiver, envelope.group_id) = (None, "team".into()),
    ];
    for change in changes {
        let mut moved = envelope.clone();
        change(&mut moved);
        assert!(sealed::open(&moved, &keys, now).is_err());
    }
    "ok"
}

fn keys() -> Keyring {
    let mut keys = Keyring::default();
    let key = SealingKey::from_secret("s", "alice", &[7; 32]).unwrap();
    keys.add_sealing(key).unwrap();
    keys
}
