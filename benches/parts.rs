//! The parts of a frame's way that run without a socket, each beside the least that could do its
//! job: `cargo bench --bench parts`.
#![allow(
    missing_docs,
    reason = "criterion_group! makes public functions without any"
)]

#[path = "load/turn.rs"]
mod turn;

use std::hint::black_box;
use std::sync::Arc;

use aes_gcm::aead::Aead as _;
use aes_gcm::{Aes256Gcm, Key as CipherKey, KeyInit as _, Nonce};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use ed25519_dalek::{Signer as _, SigningKey};
use harbor::groups::{Member, Roster};
use harbor::registry::Agent;
use harbor::router::{self, Snapshot};
use hmac::{Hmac, Mac as _};
use serde_json::value::RawValue;
use sha2::{Sha256, Sha512};
use synapse::Envelope;
use synapse::canonical::SigningInput;
use synapse::envelope::Endpoint;
use synapse::keys::{Algorithm, Key, SealingKey};
use synapse::sealed::{self, Relay};
use synapse::signature;

/// Envelopes by size: a name, bytes of each, and how many different ones are gone through.
const SIZES: [(&str, usize, usize); 3] = [
    ("1 KiB", 1 << 10, 1024),
    ("16 KiB", 16 << 10, 64),
    ("1 MiB", 1 << 20, 2),
];

/// Different envelopes of one size.
fn envelopes(bytes: usize, count: usize) -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(bytes as u64);
    let destination = r#""receiver":{"agent_id":"agent-1"}"#;
    let id = "0000000000000042";
    let one = |_| turn::envelope(&mut rng, id, 0, destination, bytes).unwrap_or_default();
    (0..count).map(one).collect()
}

/// Times `part` on one frame after the other.
fn over<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    frames: &[String],
    part: impl Fn(&str) -> T,
) {
    let mut next = frames.iter().cycle();
    group.bench_function(name, |bencher| {
        bencher.iter(|| black_box(part(black_box(next.next().map_or("", String::as_str)))));
    });
}

/// Decoding, between one pass that only looks for a byte and a parser that only finds the end.
fn decode(criterion: &mut Criterion) {
    for (name, bytes, count) in SIZES {
        let frames = envelopes(bytes, count);
        assert!(
            frames
                .iter()
                .all(|frame| Envelope::decode(frame).is_ok() && frame.len() == bytes)
        );
        let mut group = criterion.benchmark_group(format!("decode {name}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        over(&mut group, "memchr", &frames, |frame| {
            memchr::memchr(0, frame.as_bytes())
        });
        over(&mut group, "utf8", &frames, |frame| {
            std::str::from_utf8(frame.as_bytes()).is_ok()
        });
        over(&mut group, "raw value", &frames, |frame| {
            serde_json::from_str::<&RawValue>(frame).is_ok()
        });
        over(&mut group, "check_text", &frames, |frame| {
            synapse::json::check_text(frame).is_ok()
        });
        over(&mut group, "Envelope::decode", &frames, |frame| {
            Envelope::decode(frame).is_ok()
        });
        group.finish();
    }
}

/// Adding Harbor's own member, beside the copy it cannot do without.
fn splice(criterion: &mut Criterion) {
    let member = r#"{"seq":123456,"deliveries":1}"#;
    for (name, bytes, count) in SIZES {
        let frames = envelopes(bytes, count);
        let mut group = criterion.benchmark_group(format!("splice {name}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        over(&mut group, "copy", &frames, str::to_owned);
        over(&mut group, "splice_harbor", &frames, |frame| {
            synapse::envelope::splice_harbor(frame, member)
        });
        group.finish();
    }
}

fn member(number: usize) -> Member {
    let endpoint = Endpoint::new(format!("agent-{number}"));
    let role = if number.is_multiple_of(10) {
        "planner"
    } else {
        "worker"
    };
    Member {
        agent: Arc::new(Agent::new(endpoint, 1, 1 << 20)),
        roles: Arc::from([Box::from(role)]),
    }
}

/// Deciding who gets a copy, beside copying the members' handles without a question.
fn route(criterion: &mut Criterion) {
    for count in [10, 1_000, 10_000] {
        let members = (0..count).map(member);
        let roster: Roster = members.map(|m| (Arc::clone(&m.agent.id), m)).collect();
        let receiver = roster.values().next().map(|m| Arc::clone(&m.agent));
        let snapshot = Snapshot {
            receiver,
            receiver_system_id: String::new(),
            audience: Some(Arc::new(roster)),
        };
        let mut group = criterion.benchmark_group(format!("route among {count}"));
        group.bench_function("all handles", |bencher| {
            let roster = snapshot.audience.iter().flat_map(|roster| roster.values());
            bencher.iter(|| roster.clone().map(|m| &m.agent).collect::<Vec<_>>());
        });
        for (name, fields) in [
            ("receiver", r#""receiver":{"agent_id":"agent-0"}"#),
            ("group", r#""group_id":"g""#),
            (
                "role",
                r#""group_id":"g","target_type":"role","target_ids":["planner"]"#,
            ),
            (
                "specific",
                r#""group_id":"g","target_type":"specific","target_ids":["agent-1","agent-7"]"#,
            ),
        ] {
            let mut rng = fastrand::Rng::with_seed(1);
            let frame =
                turn::envelope(&mut rng, "0000000000000042", 0, fields, 512).unwrap_or_default();
            let Ok(envelope) = Envelope::decode(&frame) else {
                panic!("{frame} is no envelope");
            };
            let Ok(destination) = envelope.destination("") else {
                panic!("{frame} goes nowhere");
            };
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    black_box(router::route("sender", black_box(&destination), &snapshot))
                });
            });
        }
        group.finish();
    }
}

/// Verifying, beside the least: the bare primitive, and parsing the same envelope unsigned, one pass
/// over its bytes, and the bare primitive.
fn verify(criterion: &mut Criterion) {
    let at = jiff::Timestamp::now();
    for algorithm in Algorithm::ALL {
        let secret = vec![7; algorithm.secret_bytes()];
        let Ok(key) = Key::from_secret("k", "agent-0", algorithm, &secret) else {
            panic!("a secret of {} bytes is refused", secret.len());
        };
        let signed: Vec<Signed> = envelopes(1 << 10, 256)
            .iter()
            .filter_map(|frame| Signed::of(frame, &key))
            .collect();
        assert_eq!(signed.len(), 256);
        let frames = |pick: fn(&Signed) -> &String| signed.iter().map(pick).cloned().collect();
        let unsigned: Vec<String> = frames(|signed| &signed.covered);
        let keys = [key];
        let bare = bare(algorithm, secret);
        let mut group = criterion.benchmark_group(format!("verify 1 KiB {}", algorithm.wire()));
        over(&mut group, "bare", &unsigned, |text| bare(text.as_bytes()));
        over(&mut group, "decode, one pass, bare", &unsigned, |frame| {
            let is_read = Envelope::decode(frame).is_ok();
            let passed = memchr::memchr(0, frame.as_bytes());
            (is_read, passed, bare(frame.as_bytes()))
        });
        let is_verified = |frame: &str| {
            Envelope::decode(frame)
                .is_ok_and(|envelope| signature::verify(&envelope, frame, &keys, at).is_ok())
        };
        for (name, frames) in [
            ("verify, canonical", frames(|signed| &signed.canonical)),
            ("verify, in another order", frames(|signed| &signed.frame)),
            ("verify, with white space", frames(|signed| &signed.spaced)),
        ] {
            assert!(frames.iter().all(|frame: &String| is_verified(frame)));
            over(&mut group, name, &frames, is_verified);
        }
        group.finish();
    }
}

/// Opening a sealed payload, sealing it again and signing the frame, beside the primitives alone.
fn reseal(criterion: &mut Criterion) {
    let at = jiff::Timestamp::now();
    let sealing = |agent_id: &str, secret| {
        SealingKey::from_secret(format!("{agent_id}-seal"), agent_id, secret).ok()
    };
    let keys = (sealing("agent-0", &[1; 32]), sealing("agent-1", &[2; 32]));
    let signer = Key::from_secret("harbor-1", "harbor", Algorithm::Ed25519, &[7; 32]);
    let ((Some(senders), Some(receivers)), Ok(signer)) = (keys, signer) else {
        panic!("a secret of 32 bytes is refused");
    };
    let frames: Vec<String> = envelopes(1 << 10, 256)
        .iter()
        .filter_map(|frame| {
            let sealed = sealed::seal(Envelope::decode(frame).ok()?, &senders, at);
            Some(sealed.ok()?.to_json())
        })
        .collect();
    assert_eq!(frames.len(), 256);
    let mut group = criterion.benchmark_group("reseal 1 KiB");
    let bare = bare_reseal();
    over(
        &mut group,
        "AES-GCM twice, Ed25519, bare",
        &frames,
        |frame| bare(frame.as_bytes()),
    );
    over(&mut group, "decode", &frames, |frame| {
        Envelope::decode(frame).is_ok()
    });
    over(&mut group, "decode, open, seal, sign", &frames, |frame| {
        let envelope = Envelope::decode(frame).ok()?;
        let relay = Relay::open(&envelope, frame, &senders, at).ok()?;
        relay.under(&receivers, &signer, at).ok()
    });
    over(&mut group, "the same for 10 receivers", &frames, |frame| {
        let envelope = Envelope::decode(frame).ok()?;
        let relay = Relay::open(&envelope, frame, &senders, at).ok()?;
        let made = (0..10).filter_map(|_| relay.under(&receivers, &signer, at).ok());
        Some(made.map(|frame| frame.len()).sum::<usize>())
    });
    group.finish();
}

/// The primitives alone: 1 KiB opened and sealed, and bytes of the frame's length signed.
fn bare_reseal() -> impl Fn(&[u8]) -> (bool, bool, [u8; 64]) {
    let secret: [CipherKey<Aes256Gcm>; 2] = [[1; 32].into(), [2; 32].into()];
    let (nonce, text) = (Nonce::from([3; 12]), vec![b'x'; 1 << 10]);
    let sealed = Aes256Gcm::new(&secret[0]).encrypt(&nonce, &*text);
    let sealed = sealed.unwrap_or_default();
    let signing = SigningKey::from_bytes(&[7; 32]);
    move |frame| {
        let opened = Aes256Gcm::new(&secret[0]).decrypt(&nonce, &*sealed);
        let again = Aes256Gcm::new(&secret[1]).encrypt(&nonce, &*text);
        (
            opened.is_ok(),
            again.is_ok(),
            signing.sign(frame).to_bytes(),
        )
    }
}

/// One signed envelope, spelled in several ways.
struct Signed {
    /// Members in the order the library writes them.
    frame: String,
    /// The same with a space behind each comma and colon, as Python writes it.
    spaced: String,
    canonical: String,
    /// What the signature covers, which is the canonical form of the unsigned envelope.
    covered: String,
}

impl Signed {
    fn of(frame: &str, key: &Key) -> Option<Self> {
        let envelope = Envelope::decode(frame).ok()?;
        let frame = signature::signed(envelope, key).ok()?;
        let value: serde_json::Value = serde_json::from_str(&frame).ok()?;
        Some(Signed {
            spaced: with_spaces(&frame),
            // Sorted by key, as a map of `serde_json` is.
            canonical: value.to_string(),
            covered: SigningInput::of(&frame).ok()?.to_text(),
            frame,
        })
    }
}

fn with_spaces(frame: &str) -> String {
    let mut spaced = String::new();
    let (mut is_inside, mut is_escaped) = (false, false);
    for char in frame.chars() {
        spaced.push(char);
        match char {
            '"' if !is_escaped => is_inside = !is_inside,
            ',' | ':' if !is_inside => spaced.push(' '),
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    spaced
}

/// Whether bytes are as they were signed.
type Check = Box<dyn Fn(&[u8]) -> bool>;

/// The primitive alone, over bytes that are given or, for Ed25519, others of the same length.
fn bare(algorithm: Algorithm, secret: Vec<u8>) -> Check {
    match algorithm {
        Algorithm::HmacSha256 => Box::new(move |bytes| {
            let mac = Hmac::<Sha256>::new_from_slice(&secret);
            mac.is_ok_and(|mac| mac.chain_update(bytes).verify_slice(&[0; 32]).is_ok())
        }),
        Algorithm::HmacSha512 => Box::new(move |bytes| {
            let mac = Hmac::<Sha512>::new_from_slice(&secret);
            mac.is_ok_and(|mac| mac.chain_update(bytes).verify_slice(&[0; 64]).is_ok())
        }),
        Algorithm::Ed25519 => {
            let signing = SigningKey::from_bytes(&[7; 32]);
            let message = vec![b'x'; 1 << 10];
            let (public, signature) = (signing.verifying_key(), signing.sign(&message));
            Box::new(move |_| public.verify_strict(&message, &signature).is_ok())
        }
    }
}

criterion_group!(parts, decode, route, splice, verify, reseal);
criterion_main!(parts);
