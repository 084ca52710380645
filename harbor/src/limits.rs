//! Every bound of the broker that is not configured, unit last, with the reason beside it.
//!
//! Consulted all along a frame's way. Configured bounds and their defaults are in [`crate::config`].

/// Most bytes of HTTP request head (RFC 9112 section 2). Sites with large cookies send 8 KiB; more
/// than this gets status 431.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 32 * 1024;

/// Read buffer of one socket, in bytes: the largest part of an idle connection's memory. It holds
/// eight messages of 1 KiB, so a busy socket reads several per system call.
pub(crate) const READ_BUFFER_BYTES: usize = 8 * 1024;

/// Most bytes handed to a socket at once; a longer message goes in fragments of this size. Those
/// may be written after their deadline if the peer stalls in the middle, and the buffer for them
/// stays with the connection, so it is small; large enough to write many messages per system call.
pub(crate) const WRITE_BATCH_BYTES_MAX: usize = 32 * 1024;

/// Room of a socket's write buffer: a batch may begin one byte below its bound and end with a whole
/// frame, and pongs come between.
pub(crate) const WRITE_BUFFER_BYTES_MAX: usize = 4 * WRITE_BATCH_BYTES_MAX;

/// Most messages carried out before what they caused is written: their answers share a write, and
/// the first of them waits for the last, some 2 µs each.
pub(crate) const READ_BATCH_MESSAGES_MAX: usize = 32;

/// What a queued frame costs beside its bytes, about: its place in the queue, its allocation.
pub(crate) const QUEUED_FRAME_OVERHEAD_BYTES: usize = 128;

/// Bytes a peer may send without completing a message, per byte of the frame limit: the rest is
/// frame headers. Stops endless empty fragments, which no message limit sees.
pub(crate) const WIRE_BYTES_PER_FRAME_BYTE_MAX: usize = 2;

/// How long a closing connection waits for its peer to take what was written and close too.
pub(crate) const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// Most roles of one agent in one group: each message to roles looks at them.
pub(crate) const ROLES_PER_MEMBER_MAX: usize = 64;

/// Most agents a discovery answer lists unless it asks for another number.
pub(crate) const DISCOVER_LIMIT_DEFAULT: usize = 100;

/// Most agents a discovery answer lists.
pub(crate) const DISCOVER_LIMIT_MAX: usize = 1_000;

/// TCP connections beside those that `connections_max` lets upgrade: room to ask for health and
/// metrics, and to be told 503, on a full node. More wait in the kernel's backlog.
pub(crate) const HTTP_CONNECTIONS_SPARE: usize = 1_000;

/// How long an HTTP connection may live on once the node drains: enough for a request that is on its
/// way and its 503, while one that never comes hardly holds the drain.
pub(crate) const DRAINING_REQUEST_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// When agents of a draining node are told to come back, in milliseconds, each by chance: not before
/// another node can have taken the port, and spread so that they do not all come at once.
pub(crate) const RECONNECT_AFTER_MS: std::ops::Range<u64> = 100..2_000;

/// When to try again after a refusal that time mends (full, draining), in milliseconds: long enough
/// that trying costs nothing, short enough that nobody notices.
pub(crate) const RETRY_AFTER_MS: u64 = 1_000;

/// Most refused registrations on one connection: enough to mend mistakes one by one, too few to try
/// keys out.
pub(crate) const REFUSED_REGISTRATIONS_MAX: u32 = 8;

/// Most other refused frames on one connection before it registers: each costs a parse and an answer.
pub(crate) const REFUSED_FRAMES_MAX: u32 = 64;

/// Most bytes a peer may send before it has registered: room for a registration with 1,000 groups
/// and some that were refused. With 10,000 such peers at once, 2.5 GiB at worst.
pub(crate) const UNREGISTERED_BYTES_MAX: u64 = 256 * 1024;

/// Most ids of one sender that are remembered, each some 150 bytes: the newest of them.
pub(crate) const DUPLICATE_IDS_MAX: usize = 4_096;

/// Senders' memories of ids from which on unused ones are looked for.
pub(crate) const DUPLICATES_SWEEP_MIN: usize = 1_024;

/// Buckets of agents' paces from which on unused ones are looked for.
pub(crate) const PACES_SWEEP_MIN: usize = 1_024;

/// How often the same trouble is logged: often enough to be seen, too seldom to fill a disk.
pub(crate) const COMPLAINT_PERIOD: std::time::Duration = std::time::Duration::from_secs(10);

/// Pause after a failed accept, which mostly means that file descriptors ran out.
pub(crate) const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// A queue whose room is larger than this gives it back when it has run empty, in frames.
pub(crate) const IDLE_QUEUE_FRAMES_MAX: usize = 1_024;

/// Most bytes submitted to the store and not yet answered: half a second of a disk that takes
/// 128 MiB/s, so a slower one is refused work rather than let grow what is in memory.
pub(crate) const SUBMITTED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a submitted change costs beside its bytes, about: its place in the queue, its key, its value.
pub(crate) const SUBMITTED_OVERHEAD_BYTES: usize = 128;

/// Longest id of an agent the store takes: the engine's keys have 64 KiB, and a frame is no place
/// for longer ones.
pub(crate) const AGENT_ID_BYTES_MAX: usize = 32 * 1024;

/// Largest body the store takes: the engine's values have 4 GiB, and a frame has long been refused
/// before that.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Numbers the store reserves at once: at a million a second one more write each second, and what
/// a restart skips is nothing beside 2^64.
pub(crate) const SEQ_BLOCK: u64 = 1_048_576;

/// Blocks of the store's files that are kept in memory. Bodies are mostly read soon after they were
/// written, from what is not in a file yet, so this serves the mailboxes of agents long away.
pub(crate) const STORE_CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// What a part of the store holds in memory before it goes to a file of its own, beyond which a
/// group may take it by [`SUBMITTED_BYTES_MAX`]. Up to four more of each wait to be written, then
/// writers wait; most messages are taken and removed before it comes to that.
pub(crate) const STORE_MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;

/// Log of the store on disk before the oldest parts in memory are made to go to their files: bounds
/// the time of a restart, which reads it all. The engine takes no less than 64 MiB.
pub(crate) const STORE_LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Files the store holds open: an agent's socket is worth more than a file opened again.
pub(crate) const STORE_FILES_OPEN_MAX: usize = 128;

/// Threads that move the store's parts to files: one may be busy merging while one makes room.
pub(crate) const STORE_WORKERS: usize = 2;

const _: () = assert!(READ_BUFFER_BYTES < WRITE_BATCH_BYTES_MAX);
const _: () = assert!(2 * WRITE_BATCH_BYTES_MAX < WRITE_BUFFER_BYTES_MAX);
