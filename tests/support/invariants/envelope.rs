//! What holds for every frame, whatever its bytes. Panics where it does not hold.

use synapse::{Envelope, envelope::splice_harbor};

/// Decodes `bytes` and checks what came of it: `ok`, a refusal's code, or `bytes` for what is not
/// UTF-8, which a WebSocket refuses before.
///
/// # Panics
///
/// When the decoder breaks a promise.
pub fn check(bytes: &[u8]) -> &'static str {
    let Ok(frame) = std::str::from_utf8(bytes) else {
        return "bytes";
    };
    let decoded = Envelope::decode(frame);
    let envelope = match decoded {
        Ok(envelope) => envelope,
        Err(refused) => {
            assert!(!refused.refusal.reason.is_empty());
            let named = refused
                .id
                .as_ref()
                .is_none_or(|id| !id.is_empty() && id.len() <= 128);
            assert!(named, "{:?}", refused.id);
            return refused.refusal.code.row().wire;
        }
    };
    borrows_its_payload(frame, &envelope);
    reads_back_what_it_writes(&envelope);
    if envelope.harbor.is_none() {
        splices_behind_the_same_bytes(frame, &envelope);
    }
    addresses_somebody_or_says_why_not(&envelope);
    "ok"
}

/// The payload is a part of the frame, byte for byte.
fn borrows_its_payload(frame: &str, envelope: &Envelope<'_>) {
    let payload = envelope.payload.get();
    let start = (payload.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
    assert_eq!(frame.get(start..start + payload.len()), Some(payload));
}

/// Written anew and read again it is the same envelope, but for what only Harbor writes.
fn reads_back_what_it_writes(envelope: &Envelope<'_>) {
    let written = envelope.to_json();
    let again = Envelope::decode(&written).unwrap_or_else(|refused| {
        panic!("{refused} in its own {written}");
    });
    assert_eq!(fields(&again), fields(envelope));
    assert!(again.harbor.is_none());
    assert_eq!(again.to_json(), written);
    assert_eq!(envelope.clone().into_owned().to_json(), written);
}

/// Everything of an envelope but `harbor`, in a form that can be compared.
fn fields(envelope: &Envelope<'_>) -> String {
    let without_harbor = Envelope {
        harbor: None,
        ..envelope.clone()
    };
    format!("{without_harbor:?}")
}

/// Harbor's member comes last; every byte before it stays, and it changes no other field.
fn splices_behind_the_same_bytes(frame: &str, envelope: &Envelope<'_>) {
    let member = r#"{"seq":1,"verified":"key"}"#;
    let spliced = splice_harbor(frame, member);
    let kept = frame.trim_end_matches([' ', '\t', '\n', '\r']);
    assert!(spliced.starts_with(&kept[..kept.len() - 1]), "{spliced}");
    let delivered = Envelope::decode(&spliced).unwrap_or_else(|refused| {
        panic!("{refused} after splicing: {spliced}");
    });
    assert_eq!(
        delivered.harbor.as_ref().map(|harbor| harbor.get()),
        Some(member)
    );
    assert_eq!(fields(&delivered), fields(envelope));
}

/// A destination always names somebody.
fn addresses_somebody_or_says_why_not(envelope: &Envelope<'_>) {
    for own_system_id in ["", "s"] {
        if let Ok(destination) = envelope.destination(own_system_id) {
            assert!(destination.receiver.is_some() || destination.audience.is_some());
        }
    }
}
