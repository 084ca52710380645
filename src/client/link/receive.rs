//! What to do with a frame that was read: who it is for.
//!
//! The last turn of a frame's way before an application sees it. Harbor's own words settle what
//! waits for them; a message answers a request or goes into the inbox.

use std::{sync::Arc, time::Duration};

use super::session::Session;
use crate::{
    Envelope, Refusal,
    client::{
        command::Expect,
        error::{ControlError, ControlErrorKind, Error},
        pending,
        state::Event,
    },
    control::{self, Accepted, Draining, Presence, RefusedPayload, Roster, kind},
    limits::HARBOR_AGENT_ID,
};

impl Session<'_> {
    pub(super) fn receive(&mut self, frame: &str) {
        let envelope = match Envelope::decode(frame) {
            Ok(envelope) => envelope,
            Err(refused) => return self.unreadable(refused.refusal),
        };
        if envelope.is_control() && envelope.sender.agent_id == HARBOR_AGENT_ID {
            if let Err(refusal) = self.harbor_says(envelope, frame.len()) {
                self.unreadable(refusal);
            }
            return;
        }
        let message = self.link.shared.options.opened(envelope.into_owned());
        let message = match message.correlation_id.is_empty() {
            true => Some(message),
            false => self.link.pending.answered(message),
        };
        let inbox = &self.link.shared.inbox;
        if let Some(message) = message
            && (!self.is_closing || inbox.has_room())
        {
            inbox.push(message, frame.len());
        }
    }

    fn unreadable(&self, refusal: Refusal) {
        self.link.shared.tell(Event::Unreadable(refusal));
    }

    fn harbor_says(&mut self, envelope: Envelope<'_>, frame_bytes: usize) -> Result<(), Refusal> {
        match &*envelope.kind {
            kind::ACCEPTED => {
                let accepted: Accepted = control::read(&envelope)?;
                self.link
                    .pending
                    .accepted(&envelope.correlation_id, accepted);
            }
            kind::REFUSED => self.refused(&envelope.correlation_id, control::read(&envelope)?),
            kind::PRESENCE => {
                let change: Presence = control::read(&envelope)?;
                self.link.shared.watches().change(change);
            }
            kind::DRAINING => {
                let draining: Draining = control::read(&envelope)?;
                let reconnect_after = Duration::from_millis(draining.reconnect_after_ms);
                self.reconnect_after = Some(reconnect_after);
                self.link.shared.tell(Event::Draining { reconnect_after });
            }
            _ => {
                let id = envelope.correlation_id.clone().into_owned();
                if let Some(whole) = self.pages.whole(envelope.into_owned(), frame_bytes) {
                    let answer = whole.and_then(|answer| self.is_read(answer));
                    self.answers(&id, answer);
                }
            }
        }
        Ok(())
    }

    fn refused(&mut self, id: &str, payload: RefusedPayload) {
        let error = pending::refusal(payload);
        let unheard = match self.link.pending.take(id) {
            None => Some(error),
            Some(expect) => {
                if let Expect::Membership {
                    group_id, version, ..
                } = &expect
                {
                    self.link.shared.membership().refused(group_id, *version);
                }
                expect.fail(error).err()
            }
        };
        if let Some(error) = unheard {
            self.link.shared.tell(Event::Failed {
                message_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
                error: Arc::new(error),
            });
        }
    }

    /// The answer to a watch is a snapshot for every reader of its scope, whoever asked.
    fn is_read(&self, answer: Envelope<'static>) -> Result<Envelope<'static>, Refusal> {
        if answer.kind == kind::PRESENCE_WATCH {
            let roster: Roster = control::read(&answer)?;
            self.link.shared.watches().snapshot(&roster);
        }
        Ok(answer)
    }

    /// Harbor's answer to a question of ours, or why it cannot be read.
    fn answers(&mut self, id: &str, answer: Result<Envelope<'static>, Refusal>) {
        let reply = match self.link.pending.take(id) {
            Some(Expect::Control(reply)) => Some(reply),
            Some(Expect::Membership {
                group_id,
                version,
                reply,
            }) => {
                self.link.shared.membership().confirmed(&group_id, version);
                reply
            }
            // An answer to a resumed watch, or to a caller that was given up long ago.
            Some(Expect::Nothing | Expect::Acceptance(_) | Expect::Answer(_)) | None => None,
        };
        match (reply, answer) {
            // The caller may have given up in the meantime.
            (Some(reply), answer) => drop(reply.send(answer.map_err(|refusal| unread(&refusal)))),
            (None, Err(refusal)) => self.unreadable(refusal),
            (None, Ok(_)) => {}
        }
    }
}

/// Reads an answer's payload for a caller.
pub(in crate::client) fn read_answer<T: serde::de::DeserializeOwned>(
    answer: &Envelope<'_>,
) -> Result<T, ControlError> {
    control::read(answer).map_err(|refusal| unread(&refusal))
}

fn unread(refusal: &Refusal) -> ControlError {
    Error::because(ControlErrorKind::Unreadable, refusal.to_string())
}
