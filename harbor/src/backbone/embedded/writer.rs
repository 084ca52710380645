//! The one thread that writes: takes all that was submitted, writes it at once, tells each.
//!
//! Beside a frame's way: what must be on disk before it is answered waits for a group like this. It
//! knows of no engine: [`Disk`] is what it writes to.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex};
use tracing::error;

use super::numbers::Numbers;
use crate::{
    backbone::{Change, Done, StoreFailed},
    limits::SUBMITTED_BYTES_MAX,
};

/// What a group is written to.
pub(super) trait Disk: Send + 'static {
    /// All of it or nothing, in this order, and on disk when this returns. `reserved` is the new
    /// bound of the numbers, if it moves. After a failure this is not called again.
    fn write(&mut self, changes: Vec<Change>, reserved: Option<u64>) -> Result<(), String>;
}

/// The writer, seen by those who submit. Ends on drop, after all that was submitted is written.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    numbers: Numbers,
    queue: Mutex<Queue>,
    /// Something was submitted, numbers run low, or the end is wanted.
    woken: Condvar,
}

#[derive(Default)]
struct Queue {
    changes: Vec<Change>,
    dones: Vec<Done>,
    /// What is in `changes` and in the group that is being written, by [`Change::cost_bytes`].
    bytes: usize,
    broken: Option<Arc<str>>,
    is_ending: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("submitted", &self.dones.len())
            .field("bytes", &self.bytes)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// What is written at once.
struct Group {
    changes: Vec<Change>,
    dones: Vec<Done>,
    bytes: usize,
    reserved: Option<u64>,
}

impl Writer {
    pub(super) fn start(disk: impl Disk, numbers: Numbers) -> std::io::Result<Writer> {
        let shared = Arc::new(Shared {
            numbers,
            queue: Mutex::default(),
            woken: Condvar::new(),
        });
        let thread = thread::Builder::new().name("store".into()).spawn({
            let shared = Arc::clone(&shared);
            move || write_all(&shared, disk)
        })?;
        Ok(Writer {
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn next_seq(&self) -> Result<u64, StoreFailed> {
        let Some(given) = self.shared.numbers.give() else {
            self.health()?;
            return Err(StoreFailed::Busy);
        };
        if given.is_half_way {
            // Under the lock, so that the writer either sees the count or hears this.
            let _queue = self.shared.queue.lock();
            self.shared.woken.notify_one();
        }
        Ok(given.seq)
    }

    pub(super) fn submit(&self, changes: Vec<Change>, done: Done) {
        if let Err((done, refusal)) = self.queue(changes, done) {
            done(Err(refusal));
        }
    }

    fn queue(&self, mut changes: Vec<Change>, done: Done) -> Result<(), (Done, StoreFailed)> {
        if let Err(unfit) = changes.iter().try_for_each(Change::check) {
            return Err((done, unfit));
        }
        let bytes: usize = changes.iter().map(Change::cost_bytes).sum();
        let mut queue = self.shared.queue.lock();
        if let Some(why) = &queue.broken {
            let broken = StoreFailed::Broken(Arc::clone(why));
            return Err((done, broken));
        }
        // One that is larger than all the room has to wait until it is alone.
        if queue.bytes > 0 && queue.bytes + bytes > SUBMITTED_BYTES_MAX {
            return Err((done, StoreFailed::Busy));
        }
        queue.bytes += bytes;
        queue.changes.append(&mut changes);
        queue.dones.push(done);
        self.shared.woken.notify_one();
        Ok(())
    }

    pub(super) fn health(&self) -> Result<(), StoreFailed> {
        match &self.shared.queue.lock().broken {
            Some(why) => Err(StoreFailed::Broken(Arc::clone(why))),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.lock().is_ending = true;
        self.shared.woken.notify_one();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The last owner may be a `done`, which is called by that thread: it ends by itself then.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            error!("the writer of the store panicked");
        }
    }
}

fn write_all(shared: &Shared, mut disk: impl Disk) {
    while let Some(group) = shared.next_group() {
        let Group {
            changes,
            dones,
            bytes,
            reserved,
        } = group;
        let written = match shared.broken() {
            Some(why) => Err(why),
            None => guarded(|| disk.write(changes, reserved)).map_err(Arc::from),
        };
        let (answer, broken) = match written {
            Ok(()) => {
                if let Some(reserved) = reserved {
                    shared.numbers.extend(reserved);
                }
                (Ok(()), None)
            }
            Err(why) => (Err(StoreFailed::Broken(Arc::clone(&why))), Some(why)),
        };
        shared.finish(bytes, broken);
        for done in dones {
            let answer = answer.clone();
            let told = guarded(|| {
                done(answer);
                Ok(())
            });
            if let Err(why) = told {
                error!(why, "one who waited for the store could not be told");
            }
        }
    }
}

impl Shared {
    /// Waits for something to write; `None` at the end.
    fn next_group(&self) -> Option<Group> {
        let mut queue = self.queue.lock();
        loop {
            // A broken store reserves no more, or this would never wait again.
            let reserved = self.numbers.wanted().filter(|_| queue.broken.is_none());
            if !queue.dones.is_empty() || (reserved.is_some() && !queue.is_ending) {
                return Some(Group {
                    changes: std::mem::take(&mut queue.changes),
                    dones: std::mem::take(&mut queue.dones),
                    // Stays counted until it is written.
                    bytes: queue.bytes,
                    reserved,
                });
            }
            if queue.is_ending {
                return None;
            }
            self.woken.wait(&mut queue);
        }
    }

    fn broken(&self) -> Option<Arc<str>> {
        self.queue.lock().broken.clone()
    }

    fn finish(&self, bytes: usize, broken: Option<Arc<str>>) {
        let mut queue = self.queue.lock();
        queue.bytes -= bytes;
        if let Some(why) = broken.filter(|_| queue.broken.is_none()) {
            error!(
                why = &*why,
                "the store is broken; nothing more is stored until Harbor starts anew"
            );
            queue.broken = Some(why);
        }
    }
}

/// Runs what is not ours without letting its panic end the thread, on which everyone waits.
fn guarded(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panicked".into()))
}

#[cfg(test)]
mod tests {
    //! Goal: groups, order, bounds and failures of the writer.
    //! Method: a disk that waits to be let go, and fails as told.

    use std::{sync::mpsc, time::Duration};

    use super::*;
    use crate::{backbone::tests::body, limits::SEQ_BLOCK};

    /// Says how many changes it is asked to write, then does as it is told.
    struct Held {
        asked: mpsc::Sender<usize>,
        told: mpsc::Receiver<Result<(), String>>,
    }

    impl Disk for Held {
        fn write(&mut self, changes: Vec<Change>, _: Option<u64>) -> Result<(), String> {
            self.asked.send(changes.len()).unwrap();
            match self.told.recv() {
                Ok(answer) => answer,
                Err(_) => panic!("a disk that panics"),
            }
        }
    }

    struct Rig {
        writer: Writer,
        asked: mpsc::Receiver<usize>,
        tell_disk: mpsc::Sender<Result<(), String>>,
        tell: mpsc::Sender<(u64, Result<(), StoreFailed>)>,
        told: mpsc::Receiver<(u64, Result<(), StoreFailed>)>,
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    impl Rig {
        fn start() -> Rig {
            let (asked_of, asked) = mpsc::channel();
            let (tell_disk, disk_told) = mpsc::channel();
            let disk = Held {
                asked: asked_of,
                told: disk_told,
            };
            let (tell, told) = mpsc::channel();
            Rig {
                writer: Writer::start(disk, Numbers::new(1, 1 + SEQ_BLOCK)).unwrap(),
                asked,
                tell_disk,
                tell,
                told,
            }
        }

        fn submit(&self, seq: u64, bytes: usize) {
            let tell = self.tell.clone();
            self.writer.submit(
                vec![Change::PutBody(body(seq, &"x".repeat(bytes)))],
                Box::new(move |answer| tell.send((seq, answer)).unwrap()),
            );
        }

        fn asked(&self) -> usize {
            self.asked.recv_timeout(PATIENCE).unwrap()
        }

        fn told(&self) -> (u64, Result<(), StoreFailed>) {
            self.told.recv_timeout(PATIENCE).unwrap()
        }
    }

    #[test]
    fn what_comes_while_it_writes_is_written_at_once() {
        let rig = Rig::start();
        rig.submit(0, 1);
        assert_eq!(rig.asked(), 1);
        for seq in 1..=50 {
            rig.submit(seq, 1);
        }
        assert!(rig.told.try_recv().is_err(), "told before it is on disk");
        rig.tell_disk.send(Ok(())).unwrap();
        assert_eq!(rig.told(), (0, Ok(())));
        assert_eq!(rig.asked(), 50);
        assert!(rig.told.try_recv().is_err(), "told before it is on disk");
        rig.tell_disk.send(Ok(())).unwrap();
        for seq in 1..=50 {
            assert_eq!(rig.told(), (seq, Ok(())));
        }
    }

    #[test]
    fn a_full_queue_is_busy_until_what_is_in_it_is_written() {
        let rig = Rig::start();
        rig.submit(0, SUBMITTED_BYTES_MAX + 1);
        assert_eq!(rig.asked(), 1);
        rig.submit(1, 1);
        assert_eq!(rig.told(), (1, Err(StoreFailed::Busy)));
        rig.tell_disk.send(Ok(())).unwrap();
        assert_eq!(rig.told(), (0, Ok(())));
        rig.submit(2, 1);
        assert_eq!(rig.asked(), 1);
        rig.tell_disk.send(Ok(())).unwrap();
        assert_eq!(rig.told(), (2, Ok(())));
    }

    fn after_a_failure_nothing_is_stored(rig: &Rig, why: &str) {
        let broken = StoreFailed::Broken(why.into());
        assert_eq!(rig.told(), (0, Err(broken.clone())));
        assert_eq!(rig.told(), (1, Err(broken.clone())));
        rig.submit(2, 1);
        assert_eq!(rig.told(), (2, Err(broken.clone())));
        assert_eq!(rig.writer.health(), Err(broken.clone()));
        // Numbers that are reserved are still good, and then there are no more.
        for _ in 0..SEQ_BLOCK {
            rig.writer.next_seq().unwrap();
        }
        assert_eq!(rig.writer.next_seq(), Err(broken));
        assert!(rig.asked.try_recv().is_err(), "it was written to again");
    }

    #[test]
    fn a_failed_write_breaks_the_store_for_good() {
        let rig = Rig::start();
        rig.submit(0, 1);
        assert_eq!(rig.asked(), 1);
        rig.submit(1, 1);
        rig.tell_disk.send(Err("no space left".into())).unwrap();
        after_a_failure_nothing_is_stored(&rig, "no space left");
    }

    #[test]
    fn a_panic_of_the_disk_is_a_failed_write() {
        let mut rig = Rig::start();
        rig.submit(0, 1);
        assert_eq!(rig.asked(), 1);
        rig.submit(1, 1);
        rig.tell_disk = mpsc::channel().0;
        after_a_failure_nothing_is_stored(&rig, "it panicked");
    }

    #[test]
    fn a_panic_of_one_who_is_told_harms_nobody_else() {
        let rig = Rig::start();
        rig.writer.submit(Vec::new(), Box::new(|_| panic!("told")));
        rig.submit(1, 1);
        rig.tell_disk.send(Ok(())).unwrap();
        rig.tell_disk.send(Ok(())).unwrap();
        assert_eq!(rig.told(), (1, Ok(())));
    }
}
