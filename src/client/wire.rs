//! One WebSocket, with writes buffered so that many frames leave in one system call.
//!
//! The outermost station of a frame's way on this side. Reading goes on while a write is pending, so
//! two peers that both write much cannot block each other.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Sink, Stream};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Error, Message, Utf8Bytes, protocol::CloseFrame},
};

use super::state::DisconnectReason;

/// Bytes that may wait to be flushed before further frames wait in the queue: enough to fill a
/// packet train, little enough that a dead peer holds back only this much.
const UNFLUSHED_BYTES_MAX: usize = 256 << 10;

/// Close code for "the peer gave none" (RFC 6455 section 7.1.5).
const NO_CLOSE_CODE: u16 = 1005;

#[derive(Debug)]
pub(super) struct Wire {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    unflushed_bytes: usize,
    must_flush: bool,
    /// What the peer closed with; the reply to it is still being flushed.
    closed_by_peer: Option<DisconnectReason>,
}

/// What happened on the socket.
#[derive(Debug)]
pub(super) enum Io {
    /// A text frame.
    Frame(Utf8Bytes),
    /// A frame with nothing for the application; the peer is alive.
    Alive,
    /// All that was fed is with the operating system.
    Flushed,
    /// The connection is over.
    Ended(DisconnectReason),
}

impl Wire {
    pub(super) fn new(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Wire {
            socket,
            unflushed_bytes: 0,
            must_flush: false,
            closed_by_peer: None,
        }
    }

    /// Whether another frame may be fed now. After the peer's close none may: it would be lost, and
    /// in the queue it can wait for the next connection.
    pub(super) fn has_room(&self) -> bool {
        self.unflushed_bytes < UNFLUSHED_BYTES_MAX && self.closed_by_peer.is_none()
    }

    /// Buffers a frame; [`Wire::poll`] flushes it. A failure shows there too.
    pub(super) fn feed(&mut self, message: Message) {
        self.unflushed_bytes += message.len();
        self.must_flush = true;
        // The write buffer has no bound of its own, so this fails only on a broken socket, which
        // the next read or flush reports with its cause.
        let _ = Pin::new(&mut self.socket).start_send(message);
    }

    /// Drives flushing, and reading when `may_read`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, may_read: bool) -> Poll<Io> {
        if self.must_flush {
            match Pin::new(&mut self.socket).poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.must_flush = false;
                    self.unflushed_bytes = 0;
                    // The reply to the peer's close is out: no need to wait for its TCP to end.
                    let closed = self.closed_by_peer.take().map(Io::Ended);
                    return Poll::Ready(closed.unwrap_or(Io::Flushed));
                }
                Poll::Ready(Err(error)) if !may_read => return Poll::Ready(self.failed(&error)),
                // Read on: what the peer said before it went is worth more than the write error.
                Poll::Ready(Err(_)) => self.must_flush = false,
                Poll::Pending => {}
            }
        }
        if !may_read {
            return Poll::Pending;
        }
        match Pin::new(&mut self.socket).poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(message))) => Poll::Ready(self.read(message)),
            Poll::Ready(Some(Err(error))) => Poll::Ready(self.failed(&error)),
            Poll::Ready(None) => {
                let ended = || DisconnectReason::Broken("it ended".to_owned());
                Poll::Ready(Io::Ended(self.closed_by_peer.take().unwrap_or_else(ended)))
            }
        }
    }

    fn read(&mut self, message: Message) -> Io {
        match message {
            Message::Text(frame) => Io::Frame(frame),
            Message::Ping(_) => {
                // The library queued the pong; it leaves with the next flush.
                self.must_flush = true;
                Io::Alive
            }
            Message::Close(close) => {
                self.must_flush = true;
                self.closed_by_peer = Some(closed(close));
                Io::Alive
            }
            Message::Binary(_) | Message::Pong(_) | Message::Frame(_) => Io::Alive,
        }
    }

    fn failed(&mut self, error: &Error) -> Io {
        let broken = || DisconnectReason::Broken(error.to_string());
        Io::Ended(self.closed_by_peer.take().unwrap_or_else(broken))
    }
}

fn closed(close: Option<CloseFrame>) -> DisconnectReason {
    let (code, reason) = close.map_or((NO_CLOSE_CODE, String::new()), |close| {
        (close.code.into(), close.reason.to_string())
    });
    DisconnectReason::Closed { code, reason }
}
