//! A Harbor as a process of its own, for what only the operating system can tell.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use super::{binary, harbor::EVERYTHING_PERMITTED, soon};

/// A running `harbor`; it ends with this.
#[derive(Debug)]
pub struct Process {
    /// Where agents connect.
    pub url: String,
    /// The `Authorization` of whoever asks for its metrics, as a header line, or nothing.
    monitor: String,
    child: Child,
}

impl Process {
    /// On a free port, with these further arguments.
    pub async fn start(arguments: &[&str]) -> Process {
        let mut harbor = Command::new(binary("harbor"));
        harbor.args(arguments);
        Process::spawn(harbor).await
    }

    /// The same with at most so many file descriptors; what it logs can be asked for.
    pub async fn with_files(count: usize, arguments: &[&str]) -> Process {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$0\" \"$@\"");
        shell.arg("-c").arg(script).arg(binary("harbor"));
        shell.args(arguments).stderr(Stdio::piped());
        Process::spawn(shell).await
    }

    /// The same in a folder, where its data folder then is; what it logs can be asked for.
    pub async fn in_folder(folder: &std::path::Path, arguments: &[&str]) -> Process {
        let mut harbor = Command::new(binary("harbor"));
        harbor.args(arguments).current_dir(folder);
        harbor.env_remove("HARBOR_DATA").stderr(Stdio::piped());
        Process::spawn_as_is(harbor).await
    }

    async fn spawn(mut command: Command) -> Process {
        command.env("HARBOR_DATA", super::NO_DATA);
        command.env("HARBOR_PERMISSIONS", EVERYTHING_PERMITTED);
        Process::spawn_as_is(command).await
    }

    async fn spawn_as_is(mut command: Command) -> Process {
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = soon("it listens", lines.next_line())
            .await
            .unwrap()
            .unwrap();
        let url = line.strip_prefix("listening on ").unwrap().to_owned();
        Process {
            url,
            monitor: String::new(),
            child,
        }
    }

    /// The same, whose metrics are asked for with this token.
    pub fn monitored_with(mut self, token: &str) -> Process {
        self.monitor = format!("Authorization: Bearer {token}\r\n");
        self
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> std::net::SocketAddr {
        let addr = self.url.trim_start_matches("ws://").trim_end_matches("/ws");
        addr.parse().unwrap()
    }

    /// Ends it; all that it logged.
    pub async fn said(mut self) -> String {
        self.child.start_kill().unwrap();
        let mut said = String::new();
        let mut log = self.child.stderr.take().unwrap();
        soon("its log ends", log.read_to_string(&mut said))
            .await
            .unwrap();
        said
    }

    /// What it holds in memory now, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The text of `GET /metrics`.
    pub async fn metrics(&self) -> String {
        let mut tcp = tokio::net::TcpStream::connect(self.addr()).await.unwrap();
        let head = "GET /metrics HTTP/1.1\r\nHost: harbor\r\nConnection: close\r\n";
        let request = format!("{head}{}\r\n", self.monitor);
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        soon("metrics", tcp.read_to_string(&mut text))
            .await
            .unwrap();
        text
    }

    /// The value of a metric without labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.metrics().await;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")))
            .unwrap();
        line.parse().unwrap()
    }
}
