//! Sending, asking, answering and taking messages.
//!
//! The first and last step of a frame's way: what an application does with a [`Client`].

use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::time::Instant;

use super::{
    Client,
    call::Call,
    command::Expect,
    error::{Error, RequestError, RequestErrorKind, SendError, SendErrorKind},
};
use crate::{
    Envelope,
    control::{Accepted, Confirm},
    limits::VERSION,
};

/// A message that was posted: its id, and its acceptance for whoever wants to know. Dropping it
/// changes nothing about the message; a failure is then told as [`Event::Failed`](super::Event).
#[derive(Debug)]
pub struct Posted {
    id: String,
    acceptance: Option<Call<Accepted, SendErrorKind>>,
}

impl Posted {
    /// The message's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for Harbor to accept the message.
    ///
    /// # Errors
    ///
    /// As [`Client::send`]; the deadline counts from the posting.
    pub async fn accepted(self) -> Result<Accepted, SendError> {
        match self.acceptance {
            Some(acceptance) => acceptance.outcome().await,
            None => Err(Error::new(SendErrorKind::Unconfirmed)),
        }
    }
}

impl Client {
    /// Sends a message and waits until Harbor has accepted it. `id`, `timestamp` and `version` are
    /// filled in where they are empty, and `sender` always; then it is sealed if it says so
    /// ([`Envelope::seal_with`]) and signed if there is a key. Without a connection it waits for one.
    /// Any number of sends may wait at once; those of one task go out in order.
    ///
    /// An acceptance says how many agents the message was routed to; that may be none.
    /// Dropping the future before the message was written withdraws it.
    ///
    /// # Errors
    ///
    /// * [`SendErrorKind::Refused`]: Harbor said no, see [`Error::refusal`].
    /// * [`SendErrorKind::NotSent`]: no connection by
    ///   [`Options::acceptance_deadline`](super::Options::acceptance_deadline).
    /// * [`SendErrorKind::Deadline`], [`SendErrorKind::InboxFull`], [`SendErrorKind::Disconnected`]:
    ///   it was sent, and what became of it is unknown.
    /// * [`SendErrorKind::TooLarge`], [`SendErrorKind::Invalid`], [`SendErrorKind::Unconfirmed`]:
    ///   it cannot be sent like this.
    /// * [`SendErrorKind::Closed`]: the client is closed.
    pub async fn send(&self, envelope: Envelope<'static>) -> Result<Accepted, SendError> {
        if self.shared.options.confirm == Confirm::Refusals {
            return Err(Error::new(SendErrorKind::Unconfirmed));
        }
        let (_id, call) = self.place(envelope).await?;
        let _withdraw = call.withdraw_on_drop();
        call.outcome().await
    }

    /// Sends a message without waiting for its acceptance: only for room in the queue. Posts of one
    /// task go out in order. It is written as soon as there is a connection, or dropped with an
    /// [`Event::Failed`](super::Event) when there is none by the acceptance deadline.
    ///
    /// # Errors
    ///
    /// [`SendErrorKind::NotSent`] when the queue had no room by the deadline,
    /// [`SendErrorKind::Invalid`], [`SendErrorKind::Closed`]. Later failures come out of
    /// [`Posted::accepted`], or as an event.
    pub async fn post(&self, envelope: Envelope<'static>) -> Result<Posted, SendError> {
        match self.shared.options.confirm {
            Confirm::Each => {
                let (id, call) = self.place(envelope).await?;
                let acceptance = Some(call);
                Ok(Posted { id, acceptance })
            }
            Confirm::Refusals => {
                let (id, frame) = self.prepare(envelope)?;
                let deadline = Instant::now() + self.shared.options.acceptance_deadline;
                self.place_unheard(id.clone(), frame, deadline).await?;
                let acceptance = None;
                Ok(Posted { id, acceptance })
            }
        }
    }

    /// Sends a request and waits for the first message whose `correlation_id` is its id. Further
    /// answers, and one that comes after the deadline, are delivered like any message. A request
    /// that was accepted goes on waiting when the connection is lost and made again.
    ///
    /// # Errors
    ///
    /// * [`RequestErrorKind::NoRecipients`]: it was accepted and reached nobody. Told at once
    ///   (with [`Confirm::Refusals`] this cannot be known).
    /// * [`RequestErrorKind::NoAnswer`]: no answer within `deadline`.
    /// * [`RequestErrorKind::Send`]: as for [`Client::send`]; a refusal is told at once.
    pub async fn request(
        &self,
        envelope: Envelope<'static>,
        deadline: Duration,
    ) -> Result<Envelope<'static>, RequestError> {
        let frame = self.prepare(envelope)?;
        let deadline = Instant::now() + deadline;
        let call = Call::<_, RequestErrorKind>::place(
            &self.shared,
            &self.handle.queue,
            frame,
            deadline,
            Expect::Answer,
        )
        .await?;
        let _withdraw = call.withdraw_on_drop();
        call.outcome().await.map_err(|error| {
            error.map(|kind| match kind {
                RequestErrorKind::Send(SendErrorKind::Deadline) => RequestErrorKind::NoAnswer,
                kind => kind,
            })
        })
    }

    /// Answers a message: addressed to its `reply_to` or sender, with its id as `correlation_id`,
    /// in its conversation unless `answer` names another.
    ///
    /// # Errors
    ///
    /// As [`Client::send`].
    pub async fn reply(
        &self,
        request: &Envelope<'_>,
        answer: Envelope<'static>,
    ) -> Result<Accepted, SendError> {
        self.send(answering(request, answer)).await
    }

    /// The next delivered message; `None` once the client is closed and the inbox is empty. With
    /// several callers each message goes to one of them. Dropping the future loses nothing.
    pub async fn next(&self) -> Option<Envelope<'static>> {
        self.shared.inbox.take().await
    }

    /// A message that has been delivered already, if there is one.
    pub fn try_next(&self) -> Option<Envelope<'static>> {
        self.shared.inbox.try_take()
    }

    /// Delivered messages as a stream, the same as [`Client::next`] in a loop.
    pub fn messages(&self) -> impl Stream<Item = Envelope<'static>> + Send + use<> {
        stream::unfold(self.clone(), |client| async move {
            let message = client.next().await?;
            Some((message, client))
        })
    }

    async fn place(
        &self,
        envelope: Envelope<'static>,
    ) -> Result<(String, Call<Accepted, SendErrorKind>), SendError> {
        let (id, frame) = self.prepare(envelope)?;
        let deadline = Instant::now() + self.shared.options.acceptance_deadline;
        let named = (id.clone(), frame);
        let queue = &self.handle.queue;
        let call = Call::place(&self.shared, queue, named, deadline, Expect::Acceptance).await?;
        Ok((id, call))
    }

    /// Fills in what the client knows, and gives id and frame.
    fn prepare(&self, mut envelope: Envelope<'static>) -> Result<(String, String), SendError> {
        let invalid = |what: &str| Error::because(SendErrorKind::Invalid, what);
        if envelope.kind.is_empty() {
            return Err(invalid("type is empty"));
        }
        if envelope.is_control() {
            return Err(invalid(
                "types that start with synapse. are the control vocabulary",
            ));
        }
        if envelope.id.is_empty() {
            envelope.id = self.shared.ids.next().into();
        }
        if envelope.version.is_empty() {
            envelope.version = VERSION.into();
        }
        if envelope.timestamp.at() == jiff::Timestamp::UNIX_EPOCH {
            envelope.timestamp = jiff::Timestamp::now().into();
        }
        envelope.sender = self.shared.sender.clone();
        let id = envelope.id.clone().into_owned();
        let options = &self.shared.options;
        let sealed = options.sealed(envelope).map_err(|why| invalid(&why))?;
        let frame = options.frame(sealed);
        Ok((id, frame.map_err(|refusal| invalid(&refusal.reason))?))
    }
}

/// `answer`, addressed as the answer to `request`: what [`Client::reply`] sends, for those who
/// [`post`](Client::post) it.
#[must_use]
pub fn answering(request: &Envelope<'_>, answer: Envelope<'static>) -> Envelope<'static> {
    let to = request.reply_address().to_owned();
    let mut answer = answer.to(to).answering(request.id.clone().into_owned());
    if answer.conversation_id.is_empty() {
        answer.conversation_id = request.conversation_id.clone().into_owned().into();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Endpoint;

    #[test]
    fn an_answer_honours_reply_to_and_keeps_the_conversation() {
        let mut request = Envelope::new("ask").in_conversation("c");
        request.id = "r1".into();
        request.sender = Endpoint::new("alice");
        let answer = answering(&request, Envelope::new("answer"));
        assert_eq!(answer.receiver.unwrap().agent_id, "alice");
        assert_eq!(answer.correlation_id, "r1");
        assert_eq!(answer.conversation_id, "c");
        request.reply_to = "desk".into();
        let answer = answering(&request, Envelope::new("answer").in_conversation("own"));
        assert_eq!(answer.receiver.unwrap().agent_id, "desk");
        assert_eq!(answer.conversation_id, "own");
    }
}
