//! `synapse join`: a member of a group that prints who is there, who comes and goes, and what is
//! said.
//!
//! The receiving end of a group's frames.

use serde_json::json;
use synapse::{
    client::{Client, PresenceEvent, Watch},
    control::{Change, Member, Presence, Roster, Scope},
};

use super::{
    Interrupted,
    args::{Connection, Join},
    closed,
    failure::Failure,
    listen::tell_events,
    options,
    output::{self, Output, one_line},
};

pub(crate) async fn run(connection: &Connection, join: Join) -> Result<(), Failure> {
    let output = Output::new(connection);
    let mut interrupted = Interrupted::new()?;
    let client = tokio::select! {
        client = Client::connect(options(connection)?) => client?,
        () = interrupted.wait() => return Ok(()),
    };
    let outcome = tokio::select! {
        outcome = be_member(&client, output, &join) => outcome,
        () = interrupted.wait() => Ok(()),
    };
    client.close().await;
    outcome
}

async fn be_member(client: &Client, output: Output, join: &Join) -> Result<(), Failure> {
    let group_id = &join.group.group_id;
    let roster = client.join(group_id, join.group.all_roles()).await?;
    if join.once {
        print_roster(output, &roster)?;
        client.leave(group_id).await?;
        return Ok(());
    }
    tell_events(client);
    let scope = Scope {
        group_id: group_id.clone(),
        system_id: String::new(),
    };
    let watch = client.watch(scope).await?;
    follow(client, output, watch).await
}

async fn follow(client: &Client, output: Output, mut watch: Watch) -> Result<(), Failure> {
    loop {
        tokio::select! {
            message = client.next() => match message {
                Some(message) => print_message(output, &message)?,
                None => return closed(client),
            },
            Some(event) = watch.next() => match event {
                PresenceEvent::Snapshot(roster) => print_roster(output, &roster)?,
                PresenceEvent::Change(change) => print_change(output, &change)?,
            },
        }
    }
}

fn print_roster(output: Output, roster: &Roster) -> Result<(), Failure> {
    let for_people = || {
        let members: Vec<String> = roster.members.iter().map(described).collect();
        format!("{}: {}", roster.scope.group_id, members.join(", "))
    };
    let for_programs = json!({
        "event": "members",
        "group_id": roster.scope.group_id,
        "members": roster.members,
    });
    output.print(for_people, &for_programs)
}

fn print_change(output: Output, change: &Presence) -> Result<(), Failure> {
    let what = match change.change {
        Change::Joined => "joined",
        Change::Changed => "changed",
        Change::Left => "left",
    };
    let for_programs = json!({
        "event": what,
        "group_id": change.scope.group_id,
        "agent_id": change.member.agent_id,
        "roles": change.member.roles,
    });
    output.print(
        || format!("{} {what}", described(&change.member)),
        &for_programs,
    )
}

/// For programs the message is wrapped, so that its bytes stay and every line has an `event`.
fn print_message(output: Output, message: &synapse::Envelope<'_>) -> Result<(), Failure> {
    match output {
        Output::People => output.message(message),
        Output::Programs => {
            let message = one_line(&output::delivered_line(message));
            output::line(&format!(r#"{{"event":"message","message":{message}}}"#))
        }
    }
}

fn described(member: &Member) -> String {
    match &*member.roles {
        [] => member.agent_id.clone(),
        roles => format!("{} ({})", member.agent_id, roles.join(", ")),
    }
}
