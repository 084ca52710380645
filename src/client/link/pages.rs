//! Rosters that come in several frames, until the last of them is there.
//!
//! Beside a frame's way: Harbor splits a roster that does not fit into one frame; whoever asked
//! gets it as one answer.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{
    Code, Envelope, Refusal,
    control::{self, Roster, kind},
};

/// Most bytes of unfinished rosters, all together: a million members with short names.
pub(super) const PAGES_BYTES_MAX: usize = 64 << 20;

/// The unfinished rosters of one session, by the question they answer.
#[derive(Debug)]
pub(super) struct Pages {
    unfinished: HashMap<String, Unfinished>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Unfinished {
    /// What came so far, or why the whole cannot be read; then the rest is passed over.
    roster: Result<Roster, Refusal>,
    bytes: usize,
}

/// The one member that tells a page from a whole roster.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    more: bool,
}

impl Pages {
    pub(super) fn new(bytes_max: usize) -> Self {
        Pages {
            unfinished: HashMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Takes an answer of Harbor's and gives it back when it is whole: as it is, or with all the
    /// members of its pages. An error ends it too.
    pub(super) fn whole(
        &mut self,
        answer: Envelope<'static>,
        frame_bytes: usize,
    ) -> Option<Result<Envelope<'static>, Refusal>> {
        if !has_roster(&answer.kind) {
            return Some(Ok(answer));
        }
        let id = &*answer.correlation_id;
        let has_more = control::read::<Page>(&answer).is_ok_and(|page| page.more);
        if !has_more && !self.unfinished.contains_key(id) {
            return Some(Ok(answer));
        }
        self.add(id, control::read(&answer), frame_bytes);
        if has_more {
            return None;
        }
        let finished = self.unfinished.remove(id)?;
        self.bytes -= finished.bytes;
        Some(
            finished
                .roster
                .and_then(|roster| with_roster(answer, roster)),
        )
    }

    fn add(&mut self, id: &str, page: Result<Roster, Refusal>, frame_bytes: usize) {
        let has_room = self.bytes + frame_bytes <= self.bytes_max;
        let Some(earlier) = self.unfinished.get_mut(id) else {
            let roster = if has_room { page } else { Err(too_large()) };
            self.bytes += frame_bytes;
            let bytes = frame_bytes;
            let first = Unfinished { roster, bytes };
            self.unfinished.insert(id.to_owned(), first);
            return;
        };
        let Ok(roster) = &mut earlier.roster else {
            return;
        };
        match page {
            Ok(_) if !has_room => earlier.roster = Err(too_large()),
            Ok(page) if page.position != roster.position || page.scope != roster.scope => {
                let reason = "the pages of the roster do not belong together";
                earlier.roster = Err(Refusal::of_field(Code::InvalidField, "payload", reason));
            }
            Ok(mut page) => {
                roster.members.append(&mut page.members);
                self.bytes += frame_bytes;
                earlier.bytes += frame_bytes;
            }
            Err(refusal) => earlier.roster = Err(refusal),
        }
    }
}

fn has_roster(kind: &str) -> bool {
    let kinds = [
        kind::GROUP_JOIN,
        kind::GROUP_LEAVE,
        kind::GROUP_MEMBERS,
        kind::PRESENCE_WATCH,
    ];
    kinds.contains(&kind)
}

fn too_large() -> Refusal {
    let reason = "the roster has more bytes than a client holds";
    Refusal::of_field(Code::LimitExceeded, "payload.members", reason)
}

fn with_roster(
    answer: Envelope<'static>,
    mut roster: Roster,
) -> Result<Envelope<'static>, Refusal> {
    roster.more = false;
    answer
        .payload_of(&roster)
        .map_err(|error| Refusal::of_field(Code::InvalidField, "payload", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(id: &str, position: u64, agents: &[&str], more: bool) -> Envelope<'static> {
        let members = agents.iter();
        let members: Vec<_> = members
            .map(|agent| json!({"agent_id": agent, "online": true}))
            .collect();
        let roster = json!({
            "group_id": "g", "position": position, "members": members, "more": more,
        });
        let answer = Envelope::new(kind::GROUP_MEMBERS).answering(id.to_owned());
        answer.payload_of(&roster).unwrap()
    }

    fn members(answer: &Envelope<'_>) -> Vec<String> {
        let roster: Roster = control::read(answer).unwrap();
        assert!(!roster.more);
        let members = roster.members.into_iter();
        members.map(|member| member.agent_id).collect()
    }

    #[test]
    fn pages_of_two_rosters_become_two_answers() {
        let mut pages = Pages::new(1_000);
        assert!(pages.whole(page("1", 7, &["a"], true), 100).is_none());
        assert!(pages.whole(page("2", 8, &["x"], true), 100).is_none());
        assert!(pages.whole(page("1", 7, &["b", "c"], true), 100).is_none());
        let first = pages.whole(page("1", 7, &["d"], false), 100);
        assert_eq!(members(&first.unwrap().unwrap()), ["a", "b", "c", "d"]);
        let second = pages.whole(page("2", 8, &[], false), 100);
        assert_eq!(members(&second.unwrap().unwrap()), ["x"]);
        assert_eq!((pages.bytes, pages.unfinished.len()), (0, 0));
    }

    #[test]
    fn a_whole_roster_passes_as_it_is() {
        let mut pages = Pages::new(1);
        let whole = page("1", 7, &["a"], false);
        let text = whole.payload.get().to_owned();
        let passed = pages.whole(whole, 100).unwrap().unwrap();
        assert_eq!(passed.payload.get(), text);
    }

    #[test]
    fn too_many_bytes_end_one_roster_and_are_given_back() {
        let mut pages = Pages::new(250);
        for _ in 0..100 {
            assert!(pages.whole(page("1", 7, &["a"], true), 100).is_none());
            assert!(pages.bytes <= 250);
        }
        let end = pages.whole(page("1", 7, &["b"], false), 100);
        assert_eq!(end.unwrap().unwrap_err().code, Code::LimitExceeded);
        assert!(pages.whole(page("2", 7, &["a"], true), 100).is_none());
        let whole = pages.whole(page("2", 7, &["b"], false), 100);
        assert_eq!(members(&whole.unwrap().unwrap()), ["a", "b"]);
    }

    #[test]
    fn pages_at_two_positions_are_no_roster() {
        let mut pages = Pages::new(1_000);
        assert!(pages.whole(page("1", 7, &["a"], true), 100).is_none());
        let end = pages.whole(page("1", 8, &["b"], false), 100);
        assert_eq!(end.unwrap().unwrap_err().code, Code::InvalidField);
    }
}
