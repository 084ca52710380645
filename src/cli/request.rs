//! `synapse request`: asks, waits for the answer, prints its payload.
//!
//! A whole round of a frame's way and back.

use std::io::{self, IsTerminal};

use synapse::Envelope;

use super::{
    args::{Connection, Request},
    failure::Failure,
    output::{self, one_line, printable},
    payload, send, visit,
};

pub(crate) async fn run(connection: &Connection, request: Request) -> Result<(), Failure> {
    let payload = payload::one(&request.payload)?;
    let client = visit(send::options_for(&request.message, connection)?).await?;
    let question = send::envelope(&request.message, payload);
    let outcome = client.request(question, request.deadline).await;
    client.close().await;
    output::line(&shown(connection, &request, &outcome?))
}

/// The answer's payload; with `--text` the text of a JSON string; with `--json` the whole message.
fn shown(connection: &Connection, request: &Request, answer: &Envelope<'_>) -> String {
    if connection.json {
        return output::delivered_line(answer);
    }
    let payload = answer.payload.get();
    let text = match request.payload.text {
        true => serde_json::from_str::<String>(payload).ok(),
        false => None,
    };
    let shown = text.unwrap_or_else(|| one_line(payload));
    match io::stdout().is_terminal() {
        true => printable(&shown),
        false => shown,
    }
}
