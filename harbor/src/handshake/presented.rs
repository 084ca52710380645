//! What a peer showed of itself before it registers: at TLS, and with the upgrade request.
//!
//! Carried from the door of a frame's way to the registration, which it binds to one agent.

use synapse::{Code, Refusal};

use crate::{node::Node, tls::identity::Identity, tokens::Bearer};

/// What was shown; each may be nothing.
#[derive(Debug)]
pub(crate) struct Presented {
    /// Who it is by its certificate.
    pub(crate) certificate: Identity,
    /// Who it is by its token.
    pub(crate) bearer: Option<Bearer>,
}

impl Presented {
    /// The agent that all that was shown is of; `None` if nothing shown names one.
    pub(crate) fn agent_id(&self) -> Result<Option<&str>, Refusal> {
        if let Some(bearer) = &self.bearer {
            self.certificate.check(&bearer.agent_id)?;
            return Ok(Some(&bearer.agent_id));
        }
        Ok(self.certificate.name())
    }

    /// Checks that all that was shown is this agent's, and still holds.
    pub(super) fn check(&self, node: &Node, agent_id: &str) -> Result<(), Refusal> {
        self.certificate.check(agent_id)?;
        let Some(bearer) = &self.bearer else {
            return Ok(());
        };
        if *bearer.agent_id != *agent_id {
            let reason = format!("the token is that of {:?}", bearer.agent_id);
            let field = "sender.agent_id";
            return Err(Refusal::of_field(Code::SenderMismatch, field, reason));
        }
        if !bearer.holds(node) {
            let reason = "the token ended before the registration; connect again with another";
            return Err(Refusal::new(Code::BadToken, reason));
        }
        Ok(())
    }
}
