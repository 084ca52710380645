//! A TCP client that writes exactly the bytes a test wants, also wrong ones, and shows each HTTP
//! answer and each WebSocket frame as it came.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{Harbor, soon};

/// The bit of a frame's first byte that ends a message (RFC 6455 section 5.2).
pub const FIN: u8 = 0x80;
/// Goes on with a fragmented message.
pub const CONTINUATION: u8 = 0;
/// Starts a text message.
pub const TEXT: u8 = 1;
/// Ends the connection.
pub const CLOSE: u8 = 8;
/// Asks for a pong.
pub const PING: u8 = 9;
/// Answers a ping.
pub const PONG: u8 = 10;

/// An upgrade request without its last, empty line.
pub const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: harbor\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A frame that Harbor wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// FIN, the reserved bits and the opcode.
    pub first: u8,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The status line and the headers, in small letters.
    pub head: String,
    /// As long as `content-length` says.
    pub body: String,
}

/// One TCP connection.
#[derive(Debug)]
pub struct Raw {
    /// The connection.
    pub tcp: TcpStream,
    read: Vec<u8>,
}

/// A masked frame of a client, with the shortest length encoding.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = header(first, payload.len());
    bytes[1] |= 0x80;
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    bytes
}

/// A masked text frame of a JSON value.
pub fn text(value: &Value) -> Vec<u8> {
    frame(FIN | TEXT, value.to_string().as_bytes())
}

/// The start of an unmasked frame, with the shortest length encoding.
pub fn header(first: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(length as u8),
        126..=0xffff => {
            bytes.push(126);
            bytes.extend((length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes
}

/// A close frame's payload.
pub fn close_payload(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), reason].concat()
}

impl Raw {
    /// Connects over TCP and writes nothing.
    pub async fn connect(harbor: &Harbor) -> Raw {
        Raw::connect_to(harbor.addr()).await
    }

    /// The same for a Harbor that somebody else has, such as one that drains.
    pub async fn connect_to(addr: std::net::SocketAddr) -> Raw {
        let tcp = soon("TCP connects", TcpStream::connect(addr)).await;
        Raw::over(tcp.unwrap())
    }

    /// The same from an address of this machine.
    pub async fn connect_from(harbor: &Harbor, address: &str) -> Raw {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("{address}:0").parse().unwrap())
            .unwrap();
        let tcp = soon("TCP connects", socket.connect(harbor.addr())).await;
        Raw::over(tcp.unwrap())
    }

    /// The same with socket buffers of about this many bytes, the kernel's minimum being larger.
    pub async fn with_buffers(harbor: &Harbor, bytes: u32) -> Raw {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        socket.set_send_buffer_size(bytes).unwrap();
        let tcp = soon("TCP connects", socket.connect(harbor.addr())).await;
        Raw::over(tcp.unwrap())
    }

    fn over(tcp: TcpStream) -> Raw {
        tcp.set_nodelay(true).unwrap();
        Raw {
            tcp,
            read: Vec::new(),
        }
    }

    /// Connects and registers as `id`.
    pub async fn register(harbor: &Harbor, id: &str) -> Raw {
        let raw = Raw::connect(harbor).await;
        raw.registered(json!({"agent_id": id}), json!({})).await
    }

    /// Upgrades and registers with this endpoint and payload.
    pub async fn registered(mut self, endpoint: Value, payload: Value) -> Raw {
        let answer = self.upgrade("").await;
        assert_eq!(answer.status, 101, "{}", answer.head);
        assert_eq!(self.next_json().await["type"], "synapse.challenge");
        let register = json!({
            "id": "register", "version": "1.0.0", "type": "synapse.register", "sender": endpoint,
            "payload": payload, "timestamp": "2026-03-01T12:00:00Z",
        });
        self.write(&text(&register)).await;
        let answer = self.next_json().await;
        assert_eq!(answer["type"], "synapse.registered", "{answer}");
        self
    }

    /// Asks for the upgrade with these header lines added.
    pub async fn upgrade(&mut self, header_lines: &str) -> Answer {
        self.ask(&format!("{UPGRADE}{header_lines}\r\n")).await
    }

    /// Writes a whole HTTP request and reads the answer.
    pub async fn ask(&mut self, request: &str) -> Answer {
        self.write(request.as_bytes()).await;
        self.answer().await
    }

    /// Reads an HTTP answer.
    pub async fn answer(&mut self) -> Answer {
        let end = loop {
            match find(&self.read, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => assert!(self.fill().await, "the connection ended before an answer"),
            }
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| {
            let value = line.strip_prefix("content-length:")?;
            value.trim().parse::<usize>().ok()
        });
        let length = length.unwrap_or(0);
        while self.read.len() < length {
            assert!(self.fill().await, "the connection ended inside an answer");
        }
        let body = self.read.drain(..length).collect();
        Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        soon("bytes are written", self.tcp.write_all(bytes))
            .await
            .unwrap();
    }

    /// Writes bytes of which Harbor may not want all; whether it took them.
    pub async fn try_write(&mut self, bytes: &[u8]) -> bool {
        soon("bytes are written or refused", self.tcp.write_all(bytes))
            .await
            .is_ok()
    }

    /// The next frame; `None` when the connection ended.
    pub async fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, length)) = parse(&self.read) {
                self.read.drain(..length);
                return Some(frame);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next message, whole or in fragments, which must be text, as bytes.
    pub async fn next_text(&mut self) -> Vec<u8> {
        match self.text_or_end().await {
            Some(text) => text,
            None => panic!("a text message was expected, not the end"),
        }
    }

    /// The same; `None` when the connection is closed or ends before it.
    pub async fn text_or_end(&mut self) -> Option<Vec<u8>> {
        let mut text: Option<Vec<u8>> = None;
        loop {
            let frame = self.next_frame().await?;
            match (frame.first & !FIN, &mut text) {
                (PING, _) => continue,
                (CLOSE, _) => return None,
                (TEXT, None) => text = Some(frame.payload),
                (CONTINUATION, Some(text)) => text.extend(frame.payload),
                (opcode, _) => panic!("a text message was expected, not opcode {opcode}"),
            }
            if frame.first & FIN != 0 {
                return text;
            }
        }
    }

    /// The same as JSON.
    pub async fn next_json(&mut self) -> Value {
        serde_json::from_slice(&self.next_text().await).unwrap()
    }

    /// Reads up to the close frame; its code (0 for none given) and reason. `None` when the
    /// connection ends without.
    pub async fn closed(&mut self) -> Option<(u16, String)> {
        while let Some(frame) = self.next_frame().await {
            if frame.first == FIN | CLOSE {
                let Some((code, reason)) = frame.payload.split_first_chunk() else {
                    return Some((0, String::new()));
                };
                let reason = String::from_utf8(reason.to_vec()).unwrap();
                return Some((u16::from_be_bytes(*code), reason));
            }
        }
        None
    }

    /// The code of the close frame, after which the TCP connection must end with nothing more.
    pub async fn close_code(&mut self) -> Option<u16> {
        let (code, _) = self.closed().await?;
        self.ended().await;
        Some(code)
    }

    /// Waits for the end of the TCP connection; nothing may come before it.
    pub async fn ended(&mut self) {
        while self.fill().await {}
        assert!(self.read.is_empty(), "after the end: {:?}", self.read);
    }

    /// Reads more; whether there was any.
    async fn fill(&mut self) -> bool {
        let read = soon("bytes come", self.tcp.read_buf(&mut self.read)).await;
        read.is_ok_and(|length| length > 0)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A whole frame at the start of `bytes`, and its length with its header.
fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    assert_eq!(second & 0x80, 0, "a server does not mask");
    let (length, start) = match second {
        126 => {
            let length = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
            (usize::from(length), 4)
        }
        127 => {
            let length = u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
            (length as usize, 10)
        }
        length => (usize::from(length), 2),
    };
    let payload = bytes.get(start..start + length)?.to_vec();
    Some((Frame { first, payload }, start + length))
}
