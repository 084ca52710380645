//! Envelopes like an agent's: a chat turn with some structure and much text.
//!
//! No two are alike. One frame decoded over and over is learnt by the processor's branch predictor
//! and looks two to three times cheaper than it is between other frames.

use fastrand::Rng;

/// What an envelope begins with; its id follows.
pub(crate) const HEAD: &str = r#"{"id":""#;

/// An envelope of exactly `bytes`, from agent `from` to where `destination`, a member or more,
/// says. `None` if that is too few bytes.
pub(crate) fn envelope(
    rng: &mut Rng,
    id: &str,
    from: u32,
    destination: &str,
    bytes: usize,
) -> Option<String> {
    let mut text = format!(
        r#"{HEAD}{id}","version":"1.0.0","type":"bench.turn","sender":{{"agent_id":"agent-{from}","system_id":"bench"}},{destination},"conversation_id":"c-{conversation}","timestamp":"{timestamp}","payload":{{"turn":{turn},"role":"assistant","usage":{{"input":{input},"output":{output},"cached":{cached}}},"parts":[{{"kind":"text","index":0,"final":false}},{{"kind":"text","index":1,"final":true}}],"text":""#,
        conversation = rng.u32(..100_000),
        timestamp = jiff::Timestamp::now(),
        turn = rng.u32(..1_000),
        input = rng.u32(..100_000),
        output = rng.u32(..10_000),
        cached = rng.bool(),
    );
    let tail = r#""}}"#;
    let end = bytes
        .checked_sub(tail.len())
        .filter(|end| *end >= text.len())?;
    while text.len() < end {
        push_word(rng, &mut text, end);
    }
    text.push_str(tail);
    Some(text)
}

/// A word and what follows it; in a dozen words there is one escape.
fn push_word(rng: &mut Rng, text: &mut String, end: usize) {
    for _ in 0..rng.usize(1..10).min(end - text.len()) {
        text.push(rng.lowercase());
    }
    let after = match rng.u32(..24) {
        0 => r"\n",
        1 => r#"\" "#,
        2 => ", ",
        3 => r"\u2014",
        _ => " ",
    };
    if text.len() + after.len() <= end {
        text.push_str(after);
    }
}
