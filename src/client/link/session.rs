//! One registered connection, from its registration to its end.
//!
//! The middle of a frame's way on this side: frames out of the queue onto the wire, frames off the
//! wire to whoever they are for. The loop looks first whether it should stop, then writes, then
//! reads: writing is bounded by what may be unflushed, so neither side starves the other.

use std::{future::poll_fn, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{
    Bytes, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    Link,
    pages::{PAGES_BYTES_MAX, Pages},
    renewal::Renewal,
};
use crate::{
    client::{
        command::{Expect, Outgoing},
        dial::{Established, control_envelope},
        error::{Error, SendErrorKind},
        membership::Want,
        state::{CloseReason, DisconnectReason},
        wire::{Io, Wire},
    },
    control::{GroupRef, Join, kind},
    envelope::Envelope,
    refusal::Close,
};

/// How long closing may take: writing what is queued, and Harbor's reply.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How many heartbeats a peer may be silent, though pinged at each. Counted rather than measured, so
/// that a pause of our own process is not taken for silence of the peer's.
const SILENT_BEATS_MAX: u32 = 2;

/// How often to look for overdue frames while too many are in flight to write more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How a session ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The client should connect again.
    Lost {
        reason: DisconnectReason,
        /// What Harbor asked for when it drains.
        reconnect_after: Option<Duration>,
    },
    /// The client must not connect again.
    Final(CloseReason),
}

#[derive(Debug)]
pub(super) struct Session<'l> {
    pub(super) link: &'l mut Link,
    wire: Wire,
    frame_bytes_max: usize,
    heartbeat: Duration,
    next_beat: Instant,
    next_sweep: Instant,
    /// Heartbeats since the peer was last heard.
    silent_beats: u32,
    pub(super) reconnect_after: Option<Duration>,
    pub(super) pages: Pages,
    pub(super) renewal: Renewal,
    /// Our own close is on its way. A full inbox takes no more then, as if it had not arrived yet.
    pub(super) is_closing: bool,
}

/// Runs a session to its end.
pub(super) async fn run(link: &mut Link, established: Established) -> Ending {
    let Established {
        wire,
        session: told,
        heartbeat,
        early,
        token_end,
    } = established;
    let source = link.shared.options.token.clone();
    let mut running = Session {
        link,
        wire,
        frame_bytes_max: told.frame_bytes_max,
        heartbeat,
        next_beat: Instant::now() + heartbeat,
        next_sweep: Instant::now(),
        silent_beats: 0,
        reconnect_after: None,
        pages: Pages::new(PAGES_BYTES_MAX),
        renewal: Renewal::new(source, token_end),
        is_closing: false,
    };
    running.resume(&early);
    running.serve().await
}

impl Session<'_> {
    /// Brings Harbor up to date with what was wanted while there was no connection.
    fn resume(&mut self, early: &[Utf8Bytes]) {
        for frame in early {
            self.receive(frame);
        }
        self.regroup();
    }

    async fn serve(&mut self) -> Ending {
        let shared = self.link.shared.clone();
        loop {
            let may_read = shared.inbox.has_room();
            let may_write = self.wire.has_room() && self.link.pending.has_room();
            tokio::select! {
                biased;
                () = shared.stop.notified() => return self.say_goodbye().await,
                // Before reading, which may never end.
                turn = self.renewal.turn() => self.renew(turn),
                () = shared.regrouped.notified() => self.regroup(),
                Some(outgoing) = self.link.queue.recv(), if may_write => self.write(outgoing),
                io = poll_fn(|cx| self.wire.poll(cx, may_read)) => {
                    if let Some(ending) = self.on(io) {
                        return ending;
                    }
                }
                () = shared.inbox.room(), if !may_read => self.silent_beats = 0,
                () = sleep_until(self.next_beat) => {
                    if let Some(ending) = self.beat(may_read) {
                        return ending;
                    }
                }
            }
            if !self.link.pending.has_room() && self.next_sweep <= Instant::now() {
                self.sweep();
            }
        }
    }

    /// Writes a frame, unless its caller gave up first.
    fn write(&mut self, outgoing: Outgoing) {
        let problem = if !outgoing.ticket.take() {
            return;
        } else if outgoing.deadline <= Instant::now() {
            Error::new(SendErrorKind::NotSent)
        } else if outgoing.frame.len() > self.frame_bytes_max {
            let (is, max) = (outgoing.frame.len(), self.frame_bytes_max);
            let what = format!("the frame is {is} bytes; Harbor reads {max}");
            Error::because(SendErrorKind::TooLarge, what)
        } else if self.link.pending.contains(&outgoing.id) {
            let what = format!("id {:?} is still in flight", outgoing.id);
            Error::because(SendErrorKind::Invalid, what)
        } else {
            self.wire.feed(Message::text(outgoing.frame));
            if !matches!(outgoing.expect, Expect::Nothing) {
                let pending = &mut self.link.pending;
                pending.insert(outgoing.id, outgoing.expect, outgoing.deadline);
            }
            return;
        };
        self.link.fail(outgoing, problem);
    }

    /// Joins and leaves, watches and watches no more, what this session does not carry yet.
    fn regroup(&mut self) {
        let changes = self.link.shared.membership().take_unsent();
        for change in changes {
            let envelope = match change.want {
                Want::In(roles) => {
                    let join = Join::new(&change.group_id, roles);
                    self.control(kind::GROUP_JOIN, &join)
                }
                Want::Out => {
                    let group_id = change.group_id.clone();
                    self.control(kind::GROUP_LEAVE, &GroupRef { group_id })
                }
            };
            let expect = Expect::Membership {
                group_id: change.group_id,
                version: change.version,
                reply: change.waiter,
            };
            self.write_control(&envelope, expect);
        }
        let untold = self.link.shared.watches().take_untold();
        for tell in untold {
            let kind = match tell.watch {
                true => kind::PRESENCE_WATCH,
                false => kind::PRESENCE_UNWATCH,
            };
            let envelope = self.control(kind, &tell.scope);
            let waiter = tell.waiter.map(|waiter| Expect::Control(waiter.reply));
            self.write_control(&envelope, waiter.unwrap_or(Expect::Nothing));
        }
    }

    pub(super) fn control(
        &self,
        kind: &'static str,
        payload: &impl serde::Serialize,
    ) -> Envelope<'static> {
        let shared = &self.link.shared;
        control_envelope(kind, shared.ids.next(), shared.sender.clone(), payload)
    }

    pub(super) fn write_control(&mut self, envelope: &Envelope<'_>, expect: Expect) {
        let frame = self.link.shared.options.control_frame(envelope);
        self.wire.feed(Message::text(frame));
        if !matches!(expect, Expect::Nothing) {
            let deadline = Instant::now() + self.link.shared.options.acceptance_deadline;
            let id = envelope.id.clone().into_owned();
            self.link.pending.insert(id, expect, deadline);
        }
    }

    fn on(&mut self, io: Io) -> Option<Ending> {
        match io {
            Io::Flushed => return None,
            Io::Alive => {}
            Io::Frame(frame) => self.receive(&frame),
            Io::Ended(reason) => return Some(self.ended(reason)),
        }
        self.silent_beats = 0;
        None
    }

    fn ended(&mut self, reason: DisconnectReason) -> Ending {
        match reason {
            DisconnectReason::Closed { code, .. } if code == Close::Replaced.code() => {
                Ending::Final(CloseReason::Replaced)
            }
            DisconnectReason::Closed { code, .. } if !Close::allows_reconnect(code) => {
                Ending::Final(self.renewal.close_reason())
            }
            reason => Ending::Lost {
                reason,
                reconnect_after: self.reconnect_after,
            },
        }
    }

    /// Pings, and gives up on a peer that was silent for too long. Not reading by our own choice is
    /// no silence of the peer's.
    fn beat(&mut self, reading: bool) -> Option<Ending> {
        self.next_beat = Instant::now() + self.heartbeat;
        if reading && self.silent_beats == SILENT_BEATS_MAX {
            return Some(self.ended(DisconnectReason::Silent));
        }
        self.silent_beats = if reading { self.silent_beats + 1 } else { 0 };
        self.wire.feed(Message::Ping(Bytes::new()));
        self.sweep();
        None
    }

    /// Lets go of what is overdue. Looks at everything that is pending, so not with every frame.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.next_sweep = now + SWEEP_EVERY;
        let unheard = self.link.pending.sweep(now);
        self.link.tell_unheard(unheard);
    }

    /// Writes what is queued, closes, and reads until Harbor has closed too.
    async fn say_goodbye(&mut self) -> Ending {
        self.link.queue.close();
        while let Ok(outgoing) = self.link.queue.try_recv() {
            self.write(outgoing);
        }
        self.wire.feed(Message::Close(Some(CloseFrame {
            code: CloseCode::Normal,
            reason: Utf8Bytes::default(),
        })));
        self.is_closing = true;
        // After the deadline the socket is dropped, which closes it too.
        let _ = timeout(CLOSE_WITHIN, self.read_to_the_end()).await;
        Ending::Final(CloseReason::Asked)
    }

    async fn read_to_the_end(&mut self) {
        loop {
            let io = poll_fn(|cx| self.wire.poll(cx, true)).await;
            if self.on(io).is_some() {
                return;
            }
        }
    }
}
