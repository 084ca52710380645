//! The parts of a frame's way that run without a socket, each beside the least that could do its
//! job: `cargo bench --bench parts`.
#![allow(
    missing_docs,
    reason = "criterion_group! makes public functions without any"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::value::RawValue;
use synapse::Envelope;

/// Envelope sizes, bytes, with their names.
const SIZES: [(&str, usize); 3] = [("1 KiB", 1 << 10), ("16 KiB", 16 << 10), ("1 MiB", 1 << 20)];

/// A chat turn to one agent, `bytes` long: some structure, then text with an escape here and there.
fn envelope(bytes: usize) -> String {
    let head = concat!(
        r#"{"id":"0000000000000042","version":"1.0.0","type":"bench.turn","#,
        r#""sender":{"agent_id":"agent-0","system_id":"bench"},"receiver":{"agent_id":"agent-1"},"#,
        r#""conversation_id":"c-0001","timestamp":"2026-03-01T12:00:00.123456Z","#,
        r#""payload":{"turn":12,"role":"assistant","usage":{"input":1240,"output":87,"cached":true},"#,
        r#""parts":[{"kind":"text","index":0,"final":false},{"kind":"text","index":1,"final":true}],"#,
        r#""text":""#
    );
    let words = r"The quick brown fox reads the page, \u201cand answers\u201d; then it rests.\n";
    let fill = bytes - head.len() - 3;
    let text = words.repeat(fill / words.len());
    format!(r#"{head}{text}{}"}}}}"#, "x".repeat(fill % words.len()))
}

/// Decoding, between one pass that only looks for a byte and a parser that only finds the end.
fn decode(criterion: &mut Criterion) {
    for (name, bytes) in SIZES {
        let frame = envelope(bytes);
        assert!(Envelope::decode(&frame).is_ok() && frame.len() == bytes);
        let mut group = criterion.benchmark_group(format!("decode {name}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function("memchr", |bencher| {
            bencher.iter(|| memchr::memchr(0, black_box(&frame).as_bytes()));
        });
        group.bench_function("utf8", |bencher| {
            bencher.iter(|| std::str::from_utf8(black_box(&frame).as_bytes()).is_ok());
        });
        group.bench_function("raw value", |bencher| {
            bencher.iter(|| serde_json::from_str::<&RawValue>(black_box(&frame)).is_ok());
        });
        group.bench_function("check_text", |bencher| {
            bencher.iter(|| synapse::json::check_text(black_box(&frame)).is_ok());
        });
        group.bench_function("Envelope::decode", |bencher| {
            bencher.iter(|| Envelope::decode(black_box(&frame)).is_ok());
        });
        group.finish();
    }
}

/// Adding Harbor's own member, beside the copy it cannot do without.
fn splice(criterion: &mut Criterion) {
    let member = r#"{"seq":123456,"deliveries":1}"#;
    for (name, bytes) in SIZES {
        let frame = envelope(bytes);
        let mut group = criterion.benchmark_group(format!("splice {name}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function("copy", |bencher| bencher.iter(|| black_box(&frame).clone()));
        group.bench_function("splice_harbor", |bencher| {
            bencher.iter(|| synapse::envelope::splice_harbor(black_box(&frame), member));
        });
        group.finish();
    }
}

criterion_group!(parts, decode, splice);
criterion_main!(parts);
