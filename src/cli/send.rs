//! `synapse send`: one message, or one for each line of input.
//!
//! The sending end of a frame's way. With many lines, sends overlap and outcomes are printed in the
//! order of the lines.

use serde_json::{json, value::RawValue};
use synapse::{
    Envelope,
    client::{Client, Options, Posted},
    control::Accepted,
    envelope::TargetType,
};
use tokio::sync::mpsc;

use super::{
    args::{Connection, Message, Send},
    failure::{Failure, REFUSED},
    keyfiles,
    listen::say,
    options_with,
    output::Output,
    payload, sealing, visit,
};

/// Messages sent and not yet accepted.
const IN_FLIGHT_MAX: usize = 256;

pub(crate) async fn run(connection: &Connection, send: Send) -> Result<(), Failure> {
    let output = Output::new(connection);
    let single = match send.lines {
        true => None,
        false => Some(payload::one(&send.payload)?),
    };
    let options = options_for(&send.message, connection)?.acceptance_deadline(send.deadline);
    let client = visit(options).await?;
    let outcome = match single {
        Some(payload) => {
            let posted = client.post(envelope(&send.message, payload)).await?;
            print_outcome(output, posted).await
        }
        None => send_lines(&client, output, send).await,
    };
    client.close().await;
    outcome
}

/// The options of a connection on which this message can be sent.
pub(crate) fn options_for(message: &Message, connection: &Connection) -> Result<Options, Failure> {
    let ring = keyfiles::given(connection)?;
    sealing::check(message, connection, &ring)?;
    options_with(connection, &ring)
}

/// The message around a payload.
pub(crate) fn envelope(message: &Message, payload: Box<RawValue>) -> Envelope<'static> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into();
    let mut envelope = Envelope::new(message.kind.clone()).payload(payload);
    if let Some(agent_id) = &message.to {
        envelope = envelope.to(agent_id.clone());
    }
    envelope.group_id = text(&message.group);
    let (target_type, target_ids) = match (&*message.role, &*message.member) {
        ([], []) => (TargetType::All, &[][..]),
        ([], members) => (TargetType::Specific, members),
        (roles, _) => (TargetType::Role, roles),
    };
    envelope.target_type = target_type;
    envelope.target_ids = target_ids.iter().map(|id| id.clone().into()).collect();
    envelope.broadcast = message.broadcast;
    envelope.id = text(&message.id);
    envelope.correlation_id = text(&message.answers);
    envelope.reply_to = text(&message.reply_to);
    envelope.conversation_id = text(&message.conversation);
    envelope.ttl_seconds = message.ttl;
    envelope.priority = message.priority;
    match &message.seal {
        Some(kid) => envelope.seal_with(kid),
        None => envelope,
    }
}

async fn print_outcome(output: Output, posted: Posted) -> Result<(), Failure> {
    let id = posted.id().to_owned();
    let accepted = posted.accepted().await?;
    output.print(|| described(&id, &accepted), &as_json(&id, &accepted))
}

fn described(id: &str, accepted: &Accepted) -> String {
    let agents = match accepted.recipients {
        1 => "1 agent".to_owned(),
        recipients => format!("{recipients} agents"),
    };
    let duplicate = if accepted.duplicate {
        ", was accepted before"
    } else {
        ""
    };
    format!("accepted for {agents}{duplicate} ({id})")
}

fn as_json(id: &str, accepted: &Accepted) -> serde_json::Value {
    json!({
        "id": id,
        "durability": accepted.durability,
        "recipients": accepted.recipients,
        "duplicate": accepted.duplicate,
    })
}

/// Posts the lines and prints their outcomes, both in order and side by side. A refused line is told
/// and the next ones are sent all the same; any other failure ends it.
async fn send_lines(client: &Client, output: Output, send: Send) -> Result<(), Failure> {
    let (out, posted) = mpsc::channel(IN_FLIGHT_MAX);
    let mut payloads = payload::lines(send.payload);
    let post_all = async move {
        while let Some(payload) = payloads.recv().await {
            let outcome = match payload {
                Ok(payload) => client
                    .post(envelope(&send.message, payload))
                    .await
                    .map_err(Failure::from),
                Err(failure) => Err(failure),
            };
            if out.send(outcome).await.is_err() {
                return;
            }
        }
    };
    let ((), outcome) = tokio::join!(post_all, print_outcomes(output, posted));
    outcome
}

async fn print_outcomes(
    output: Output,
    mut posted: mpsc::Receiver<Result<Posted, Failure>>,
) -> Result<(), Failure> {
    let mut was_refused = false;
    while let Some(posted) = posted.recv().await {
        match print_outcome(output, posted?).await {
            Ok(()) => {}
            Err(failure) if failure.code() == REFUSED => {
                was_refused = true;
                say(failure.line().unwrap_or_default());
            }
            Err(failure) => return Err(failure),
        }
    }
    match was_refused {
        true => Err(Failure::told(REFUSED)),
        false => Ok(()),
    }
}
