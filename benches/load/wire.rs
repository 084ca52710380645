//! The client side of the wire, as thin as it can be: the load generator shares the machine with
//! the broker it measures.
//!
//! Frames to send are prepared once, header included, under a masking key of zero: the broker
//! unmasks them as it would any other, and the generator copies bytes. Frames received are only
//! cut apart.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::Result;

/// Digits of a message id.
pub(crate) const ID_LEN: usize = 16;
/// Longest header of a client's frame: 2 bytes, 8 of length, 4 of mask.
const CLIENT_HEADER_LEN_MAX: usize = 14;
/// An answer to an upgrade request is refused when it is longer than this.
const RESPONSE_BYTES_MAX: usize = 8 * 1024;
/// Free space wanted before a read.
const READ_SPACE_MIN: usize = 2 * 1024;

/// One client connection after its upgrade.
pub(crate) struct Connection {
    pub(crate) reader: Reader,
    pub(crate) writer: OwnedWriteHalf,
}

/// The receiving half: a buffer that frames are cut from.
pub(crate) struct Reader {
    half: OwnedReadHalf,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Connection {
    /// Connects and upgrades; `buffer_bytes` is how much one read may bring.
    pub(crate) async fn open(
        address: SocketAddr,
        path: &str,
        buffer_bytes: usize,
    ) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (half, mut writer) = stream.into_split();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        writer.write_all(request.as_bytes()).await?;
        let buffer = vec![0; buffer_bytes];
        let mut reader = Reader {
            half,
            buffer,
            start: 0,
            end: 0,
        };
        reader.skip_response().await?;
        Ok(Connection { reader, writer })
    }

    /// Sends one text frame.
    pub(crate) async fn send(&mut self, text: &str) -> Result<()> {
        Ok(self
            .writer
            .write_all(&client_frame(text.as_bytes()))
            .await?)
    }
}

impl Reader {
    /// Reads once: what is there, at least one byte.
    pub(crate) async fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < READ_SPACE_MIN {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() - self.end < READ_SPACE_MIN {
                self.buffer
                    .resize((self.buffer.len() * 2).max(2 * READ_SPACE_MIN), 0);
            }
        }
        match self.half.read(&mut self.buffer[self.end..]).await? {
            0 => Err("the broker closed the connection".into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }

    /// The next whole text frame in the buffer, if there is one.
    pub(crate) fn take(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let Some((opcode, header, length)) = header(&self.buffer[self.start..self.end]) else {
                return Ok(None);
            };
            if self.end - self.start < header + length {
                return Ok(None);
            }
            let from = self.start + header;
            self.start = from + length;
            match opcode {
                0x1 | 0x2 => return Ok(Some(&self.buffer[from..from + length])),
                // A ping is left unanswered: no run lasts as long as a heartbeat's patience.
                0x9 | 0xA => {}
                0x8 => {
                    let reason = &self.buffer[from..from + length];
                    return Err(format!("closed: {}", String::from_utf8_lossy(reason)).into());
                }
                other => return Err(format!("opcode {other} was not expected").into()),
            }
        }
    }

    /// Waits for the next text frame.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame.to_vec());
            }
            self.fill().await?;
        }
    }

    /// Gives the buffer back; for a connection that only has to stay open.
    pub(crate) fn shrink(&mut self) {
        self.buffer = Vec::new();
        (self.start, self.end) = (0, 0);
    }

    async fn skip_response(&mut self) -> Result<()> {
        loop {
            self.fill().await?;
            let bytes = &self.buffer[..self.end];
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                if !bytes.starts_with(b"HTTP/1.1 101") {
                    let text = String::from_utf8_lossy(&bytes[..at]).into_owned();
                    return Err(format!("the upgrade was refused: {text}").into());
                }
                self.start = at + 4;
                return Ok(());
            }
            if self.end > RESPONSE_BYTES_MAX {
                return Err("the answer to the upgrade has no end".into());
            }
        }
    }
}

/// Opcode, header length and payload length of the server's frame that `bytes` begins with.
fn header(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let opcode = bytes.first()? & 0x0F;
    match bytes.get(1)? & 0x7F {
        126 => {
            let length: [u8; 2] = bytes.get(2..4)?.try_into().ok()?;
            Some((opcode, 4, usize::from(u16::from_be_bytes(length))))
        }
        127 => {
            let length: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
            Some((
                opcode,
                10,
                usize::try_from(u64::from_be_bytes(length)).ok()?,
            ))
        }
        length => Some((opcode, 2, usize::from(length))),
    }
}

/// A text frame as a client sends it, masked with zero.
fn client_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(CLIENT_HEADER_LEN_MAX + payload.len());
    frame.push(0x81);
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | u8::try_from(length).unwrap_or(0)),
        length => match u16::try_from(length) {
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Messages ready to be sent but for their id, all of one length.
#[derive(Clone)]
pub(crate) struct Template {
    frames: Arc<[Vec<u8>]>,
    message_len: usize,
    header_len: usize,
    id_at: usize,
}

impl Template {
    /// `id_at`: where in each of `texts` the id's sixteen digits stand.
    pub(crate) fn new(texts: &[String], id_at: usize) -> Template {
        let frames: Arc<[_]> = texts
            .iter()
            .map(|text| client_frame(text.as_bytes()))
            .collect();
        let message_len = texts.first().map_or(0, String::len);
        let header_len = frames.first().map_or(0, Vec::len) - message_len;
        Template {
            frames,
            message_len,
            header_len,
            id_at,
        }
    }

    /// Appends the frame that carries `id` to `out`.
    pub(crate) fn append(&self, id: u64, out: &mut Vec<u8>) {
        let at = out.len() + self.header_len + self.id_at;
        out.extend_from_slice(&self.frames[id as usize % self.frames.len()]);
        let mut rest = id;
        for digit in out[at..at + ID_LEN].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The id that a received message carries; its length and its place of the id are checked.
    pub(crate) fn id_of(&self, message: &[u8]) -> Result<u64> {
        let wrong = || format!("not the frame sent: {}", String::from_utf8_lossy(message));
        let digits = message
            .get(self.id_at..self.id_at + ID_LEN)
            .ok_or_else(wrong)?;
        if message.len() != self.message_len {
            return Err(wrong().into());
        }
        let id = digits.iter().try_fold(0_u64, |id, digit| {
            digit
                .is_ascii_digit()
                .then(|| id * 10 + u64::from(digit - b'0'))
        });
        Ok(id.ok_or_else(wrong)?)
    }
}
