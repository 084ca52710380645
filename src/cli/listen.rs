//! `synapse listen`: an agent that prints what it is sent.
//!
//! The receiving end of a frame's way. Reconnects like any agent; what happens to the connection
//! goes to standard error.

use std::io::{self, Write};

use synapse::{
    Envelope,
    client::{Client, Event, answering},
    envelope::Sealing,
};

use super::{
    Interrupted,
    args::{Connection, Listen},
    closed,
    failure::Failure,
    options,
    output::{Output, printable},
};

pub(crate) async fn run(connection: &Connection, listen: Listen) -> Result<(), Failure> {
    let output = Output::new(connection);
    let mut options = options(connection)?;
    for group in &listen.group {
        options = options.join(&group.group_id, group.all_roles());
    }
    let mut interrupted = Interrupted::new()?;
    let client = tokio::select! {
        client = Client::connect(options) => client?,
        () = interrupted.wait() => return Ok(()),
    };
    say(&format!("listening as {}", client.agent_id()));
    tell_events(&client);
    let outcome = tokio::select! {
        outcome = print_all(&client, output, &listen) => outcome,
        () = interrupted.wait() => Ok(()),
    };
    client.close().await;
    outcome
}

async fn print_all(client: &Client, output: Output, listen: &Listen) -> Result<(), Failure> {
    let mut left = listen.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(message) = client.next().await else {
            return closed(client);
        };
        output.message(&message)?;
        if listen.echo && message.correlation_id.is_empty() {
            echo(client, &message).await?;
        }
        left -= 1;
    }
    Ok(())
}

/// Answers without waiting: its acceptance may come behind many deliveries.
async fn echo(client: &Client, message: &Envelope<'_>) -> Result<(), Failure> {
    let answer = Envelope::new(message.kind.clone().into_owned());
    let mut answer = answer.payload(message.payload.clone().into_owned());
    if let Sealing::Opened(kid) = &message.sealing {
        // What came sealed does not go back in the clear.
        answer = answer.seal_with(kid);
    }
    client.post(answering(message, answer)).await?;
    Ok(())
}

/// Tells on standard error what happens to the connection, until it is closed.
pub(crate) fn tell_events(client: &Client) {
    let mut events = client.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                Event::Reconnected(_) => say("connected again"),
                Event::Disconnected(reason) => say(&format!("{reason}; connecting again")),
                Event::Draining { .. } => say("Harbor is going away"),
                Event::Failed { error, .. } => say(&format!("an answer was lost: {error}")),
                Event::NotRenewed(problem) => {
                    say(&format!("the token is not renewed yet: {problem}"))
                }
                Event::Unreadable(refusal) => say(&format!("skipped a frame: {refusal}")),
                _ => {}
            }
        }
    });
}

/// One line for people; whether anybody reads it does not matter.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "synapse: {}", printable(line));
}
