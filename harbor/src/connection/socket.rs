//! One WebSocket, with Harbor's settings, its bounds and its way of closing.
//!
//! Stands at both ends of a frame's way. `tungstenite` speaks RFC 6455; this adds what it leaves
//! to its user: telling the peer why, letting it read that before the TCP connection ends, and a
//! bound on fragments that never become a message.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Sink, SinkExt, StreamExt};
use synapse::refusal::Close;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        error::ProtocolError,
        protocol::{
            CloseFrame, Role, WebSocketConfig,
            frame::{
                Frame,
                coding::{Data, OpCode},
            },
        },
    },
};

use super::stream::{Stream, linger};
use crate::limits::{
    CLOSE_GRACE, READ_BUFFER_BYTES, WIRE_BYTES_PER_FRAME_BYTE_MAX, WRITE_BATCH_BYTES_MAX,
    WRITE_BUFFER_BYTES_MAX,
};

/// What came in.
#[derive(Debug)]
pub enum Incoming {
    /// A whole text message.
    Text(Utf8Bytes),
    /// A whole binary message.
    Binary(Bytes),
    /// A ping or a pong; `tungstenite` answers pings, this has to be flushed.
    Alive,
}

/// A WebSocket of an agent.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<Metered>,
    /// What is left of a message that goes in fragments.
    rest: Option<Bytes>,
    /// How many bytes will have been written once all that was fed is.
    fed: u64,
    /// All that had come was read; there is nothing until the TCP connection has something.
    is_drained: bool,
}

impl Socket {
    /// Takes over a connection after its HTTP upgrade; `already_read` came behind the request.
    pub async fn new(bytes: Stream, already_read: &[u8], max_frame_bytes: usize) -> Socket {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // A batch is collected here and written by one flush.
            .write_buffer_size(WRITE_BUFFER_BYTES_MAX)
            .max_write_buffer_size(2 * WRITE_BUFFER_BYTES_MAX)
            .max_message_size(Some(max_frame_bytes))
            .max_frame_size(Some(max_frame_bytes));
        let metered = Metered {
            stream: bytes,
            // A copy, and mostly of nothing: the HTTP parser's buffer is not kept alive by it.
            already_read: Bytes::copy_from_slice(already_read),
            since_message: 0,
            bytes_read: 0,
            bytes_read_max: u64::MAX,
            taken: 0,
            written: 0,
            bytes_max: WIRE_BYTES_PER_FRAME_BYTE_MAX * max_frame_bytes,
        };
        // Not `from_partially_read`: a read buffer made from bytes shrinks to single frames.
        let stream = WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await;
        Socket {
            stream,
            rest: None,
            fed: 0,
            is_drained: false,
        }
    }

    /// The next message, or why there will be none. On `Err` the peer has not been told yet.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, Close>> {
        // The WebSocket clears its read buffer before it finds that there is nothing to read.
        let bytes = &self.stream.get_ref().stream;
        if self.is_drained && bytes.poll_read_ready(cx).is_pending() {
            return Poll::Pending;
        }
        let message = self.stream.poll_next_unpin(cx);
        self.is_drained = message.is_pending();
        let message = ready!(message);
        let metered = self.stream.get_mut();
        let incoming = match message {
            Some(Ok(Message::Text(text))) => Incoming::Text(text),
            Some(Ok(Message::Binary(bytes))) => Incoming::Binary(bytes),
            Some(Ok(Message::Ping(payload))) => {
                self.fed += wire_bytes(payload.len());
                Incoming::Alive
            }
            Some(Ok(Message::Pong(_) | Message::Frame(_))) => Incoming::Alive,
            Some(Ok(Message::Close(_))) | None => return Poll::Ready(Err(Close::Normal)),
            Some(Err(_)) if metered.is_over() => return Poll::Ready(Err(Close::TooLarge)),
            Some(Err(error)) => return Poll::Ready(Err(close_for(&error))),
        };
        metered.since_message = 0;
        Poll::Ready(Ok(incoming))
    }

    /// How many bytes have come so far, whole messages or not.
    pub fn bytes_read(&self) -> u64 {
        self.stream.get_ref().bytes_read
    }

    /// Bounds what may come in all, from the first byte on; more ends with [`Close::TooLarge`].
    pub fn bound_bytes_read(&mut self, bytes_max: u64) {
        self.stream.get_mut().bytes_read_max = bytes_max;
    }

    /// Adds a text message to what the next flush writes. Call only after a flush was ready, and
    /// after a message longer than `WRITE_BATCH_BYTES_MAX` nothing more before the next.
    ///
    /// # Errors
    ///
    /// When the peer is gone or closing.
    pub fn feed_text(&mut self, frame: Utf8Bytes) -> Result<(), Close> {
        self.feed_data(Data::Text, Bytes::from(frame))
    }

    /// Adds a binary message. Harbor itself sends none; the conformance suite asks for it.
    ///
    /// # Errors
    ///
    /// As [`Socket::feed_text`].
    pub fn feed_binary(&mut self, bytes: Bytes) -> Result<(), Close> {
        self.feed_data(Data::Binary, bytes)
    }

    fn feed_data(&mut self, kind: Data, mut bytes: Bytes) -> Result<(), Close> {
        let whole = bytes.len() / WRITE_BATCH_BYTES_MAX;
        let last = bytes.len() % WRITE_BATCH_BYTES_MAX;
        self.fed += whole as u64 * wire_bytes(WRITE_BATCH_BYTES_MAX);
        if last > 0 || whole == 0 {
            self.fed += wire_bytes(last);
        }
        let first = bytes.split_to(bytes.len().min(WRITE_BATCH_BYTES_MAX));
        self.rest = Some(bytes).filter(|rest| !rest.is_empty());
        let is_whole = self.rest.is_none();
        self.feed(Message::Frame(Frame::message(
            first,
            OpCode::Data(kind),
            is_whole,
        )))
    }

    /// Adds a ping.
    ///
    /// # Errors
    ///
    /// As [`Socket::feed_text`].
    pub fn feed_ping(&mut self) -> Result<(), Close> {
        self.fed += wire_bytes(0);
        self.feed(Message::Ping(Bytes::new()))
    }

    fn feed(&mut self, message: Message) -> Result<(), Close> {
        Pin::new(&mut self.stream)
            .start_send(message)
            .map_err(|error| close_for(&error))
    }

    /// Writes what was fed.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Close>> {
        loop {
            let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
            flushed.map_err(|error| close_for(&error))?;
            let Some(mut rest) = self.rest.take() else {
                self.fed = self.written();
                return Poll::Ready(Ok(()));
            };
            let fragment = rest.split_to(rest.len().min(WRITE_BATCH_BYTES_MAX));
            let is_last = rest.is_empty();
            let frame = Frame::message(fragment, OpCode::Data(Data::Continue), is_last);
            self.rest = Some(rest).filter(|rest| !rest.is_empty());
            self.feed(Message::Frame(frame))?;
        }
    }

    /// Bytes that will have been written once all that was fed is. An estimate from above when pongs
    /// stand between.
    pub fn fed(&self) -> u64 {
        self.fed
    }

    /// Bytes of the WebSocket the operating system has taken for certain. It counts plaintext; what
    /// TLS still holds a part of is not counted, so of a flush that was cut short all may be missing.
    pub fn written(&self) -> u64 {
        self.stream.get_ref().written
    }

    /// Ends the connection: what was fed, then the close frame, then the bytes below, each within
    /// `CLOSE_GRACE`.
    pub async fn close(mut self, close: Close) {
        if close != Close::Lost {
            let frame = CloseFrame {
                code: close.code().into(),
                reason: close.reason().into(),
            };
            // When the peer closed first, its close frame was answered already and this one fails.
            let _ = Pin::new(&mut self.stream).start_send(Message::Close(Some(frame)));
            let _ = timeout(CLOSE_GRACE, self.stream.flush()).await;
        }
        linger(&mut self.stream.get_mut().stream).await;
    }
}

/// Bytes of a frame without mask on the wire (RFC 6455 section 5.2).
fn wire_bytes(payload_bytes: usize) -> u64 {
    let header = match payload_bytes {
        0..=125 => 2,
        126..=0xFFFF => 4,
        _ => 10,
    };
    header + payload_bytes as u64
}

/// What a broken socket means for the connection.
fn close_for(error: &Error) -> Close {
    match error {
        Error::Capacity(_) => Close::TooLarge,
        Error::Utf8(_) => Close::InvalidUtf8,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Close::Lost,
        Error::Protocol(ProtocolError::SendAfterClosing) => Close::Normal,
        Error::Protocol(_) | Error::AttackAttempt => Close::Protocol,
        Error::ConnectionClosed | Error::AlreadyClosed => Close::Normal,
        _ => Close::Lost,
    }
}

/// A connection behind its upgrade that counts what was read since the last whole message.
#[derive(Debug)]
struct Metered {
    stream: Stream,
    /// What came behind the upgrade request; it is read first.
    already_read: Bytes,
    since_message: usize,
    /// Bytes read in all.
    bytes_read: u64,
    bytes_read_max: u64,
    /// Bytes the stream below has taken in all.
    taken: u64,
    /// Bytes the operating system has for certain: all that was taken when nothing was held back.
    written: u64,
    bytes_max: usize,
}

impl Metered {
    fn is_over(&self) -> bool {
        self.since_message > self.bytes_max || self.bytes_read > self.bytes_read_max
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over() {
            return Poll::Ready(Err(io::Error::other("too many bytes")));
        }
        let before = buffer.filled().len();
        let read = if self.already_read.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))
        } else {
            let length = self.already_read.len().min(buffer.remaining());
            buffer.put_slice(&self.already_read.split_to(length));
            Ok(())
        };
        let length = buffer.filled().len() - before;
        self.since_message += length;
        self.bytes_read += length as u64;
        Poll::Ready(read)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write(cx, buffer))?;
        self.taken += length as u64;
        if self.stream.is_passed_on() {
            self.written = self.taken;
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.written = self.taken;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
