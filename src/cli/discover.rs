//! `synapse discover`: finds agents by what they can do and where they are.
//!
//! Before a frame's way: whom to address.

use synapse::{control, envelope::Endpoint};

use super::{
    args::{Connection, Discover},
    failure::Failure,
    listen::say,
    options,
    output::Output,
    visit,
};

pub(crate) async fn run(connection: &Connection, discover: Discover) -> Result<(), Failure> {
    let output = Output::new(connection);
    let client = visit(options(connection)?).await?;
    let outcome = client
        .discover(control::Discover {
            capability: discover.can.unwrap_or_default(),
            role: discover.role.unwrap_or_default(),
            system_id: discover.in_system.unwrap_or_default(),
            group_id: discover.group.unwrap_or_default(),
            after: discover.after.unwrap_or_default(),
            limit: discover.limit,
        })
        .await;
    client.close().await;
    let found = outcome?;
    // The agent this command is for a moment is not worth telling, unless it was named.
    let is_temporary =
        |agent: &Endpoint<'_>| connection.agent.is_none() && agent.agent_id == client.agent_id();
    for agent in found.agents.iter().filter(|agent| !is_temporary(agent)) {
        output.print(|| described(agent), agent)?;
    }
    if found.total > found.agents.len() as u64 {
        let (listed, total) = (found.agents.len(), found.total);
        say(&format!(
            "{listed} of {total} are listed; see --limit and --after"
        ));
    }
    Ok(())
}

fn described(agent: &Endpoint<'_>) -> String {
    let mut line = agent.agent_id.clone().into_owned();
    for (name, text) in [
        ("name", &agent.agent_name),
        ("system", &agent.system_id),
        ("version", &agent.version),
        ("endpoint", &agent.endpoint),
    ] {
        if !text.is_empty() {
            line.push_str(&format!("  {name} {text}"));
        }
    }
    if !agent.capabilities.is_empty() {
        line.push_str(&format!("  can {}", agent.capabilities.join(", ")));
    }
    line
}
