//! Renews the token of a session in good time, for as long as it lasts.
//!
//! Beside a frame's way. How long a token lasts is reckoned from Harbor's own timestamps, so that a
//! clock here that is wrong does no harm.

use std::{future::pending, pin::Pin, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep_until},
};

use super::{read_answer, session::Session};
use crate::{
    Envelope,
    client::{
        command::Expect,
        error::ControlError,
        state::{CloseReason, Event},
        token::{Token, TokenSource},
    },
    control::{Renew, Renewed, kind},
    timestamp::Timestamp,
};

/// Most time before its end that a token is renewed; a short one is when a quarter is left.
const AHEAD_MAX: Duration = Duration::from_secs(300);

/// How soon a renewal that failed is tried again, at most and at least.
const AGAIN_MAX: Duration = Duration::from_secs(30);
const AGAIN_MIN: Duration = Duration::from_millis(500);

/// When the token ends, as Harbor told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) struct End {
    expires_at: jiff::Timestamp,
    /// The same on this process's own clock.
    at: Instant,
}

impl End {
    /// From an answer of Harbor's that just came.
    pub(in crate::client) fn told(answer: &Envelope<'_>, expires_at: &Timestamp<'_>) -> End {
        let left = expires_at.at().duration_since(answer.timestamp.at());
        let left = Duration::try_from(left).unwrap_or_default();
        End {
            expires_at: expires_at.at(),
            // Beyond all clocks for a token that lasts as long.
            at: Instant::now() + left.min(Duration::from_secs(10 * 365 * 86_400)),
        }
    }

    fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    fn in_good_time(self) -> Instant {
        self.at - (self.left() / 4).min(AHEAD_MAX)
    }

    fn again(self) -> Instant {
        Instant::now() + (self.left() / 8).clamp(AGAIN_MIN, AGAIN_MAX)
    }
}

/// How it stands with the token of a session.
#[derive(Debug)]
pub(super) struct Renewal {
    /// The source, and the end of the newest token; `None` for a session that bears none.
    bears: Option<(TokenSource, End)>,
    step: Step,
    /// Why the last attempt failed.
    problem: Option<String>,
}

enum Step {
    Never,
    /// Kept from one look to the next, which costs little then.
    At(Pin<Box<Sleep>>),
    Ask(Pin<Box<dyn Future<Output = Result<Token, String>> + Send>>),
    Told(oneshot::Receiver<Result<Envelope<'static>, ControlError>>),
}

impl Step {
    fn at(at: Instant) -> Step {
        Step::At(Box::pin(sleep_until(at)))
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Never => "Never",
            Step::At(_) => "At",
            Step::Ask(_) => "Ask",
            Step::Told(_) => "Told",
        })
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Turn {
    /// Give Harbor this token.
    Tell(Token),
    /// Tell the application that it did not work out.
    Failed(String),
}

impl Renewal {
    pub(super) fn new(source: Option<TokenSource>, end: Option<End>) -> Self {
        let bears = source.zip(end);
        let step = match &bears {
            Some((source, end)) if source.is_renewable() => Step::at(end.in_good_time()),
            _ => Step::Never,
        };
        Renewal {
            bears,
            step,
            problem: None,
        }
    }

    /// Waits for the next thing to do. Dropped, it goes on later where it was.
    pub(super) async fn turn(&mut self) -> Turn {
        let Some((source, end)) = &mut self.bears else {
            return pending().await;
        };
        let problem = loop {
            match &mut self.step {
                Step::Never => pending().await,
                Step::At(at) => {
                    at.await;
                    self.step = Step::Ask(source.ask());
                }
                Step::Ask(asked) => match asked.await {
                    Ok(token) => {
                        self.step = Step::Never;
                        return Turn::Tell(token);
                    }
                    Err(problem) => break problem,
                },
                Step::Told(answer) => match answered(answer.await, *end) {
                    Ok(newer) => {
                        *end = newer;
                        self.problem = None;
                        self.step = Step::at(newer.in_good_time());
                    }
                    Err(problem) => break problem,
                },
            }
        };
        self.step = Step::at(end.again());
        self.problem = Some(problem.clone());
        Turn::Failed(problem)
    }

    /// Why a connection that Harbor closed with 4003 is over.
    pub(super) fn close_reason(&self) -> CloseReason {
        match (&self.problem, &self.bears) {
            (Some(problem), _) => CloseReason::NotRenewed(problem.clone()),
            (None, Some((source, _))) if !source.is_renewable() => {
                CloseReason::NotRenewed("it is a fixed one".to_owned())
            }
            _ => CloseReason::Unauthorised,
        }
    }
}

/// The end of the newer token, if it is one.
fn answered(
    answer: Result<Result<Envelope<'static>, ControlError>, oneshot::error::RecvError>,
    end: End,
) -> Result<End, String> {
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_link_is_gone) => return Err("the connection was lost before the answer".to_owned()),
    };
    let renewed: Renewed = read_answer(&answer).map_err(|error| error.to_string())?;
    let newer = End::told(&answer, &renewed.expires_at);
    if newer.expires_at <= end.expires_at {
        return Err("its source gives no token that lasts longer".to_owned());
    }
    Ok(newer)
}

impl Session<'_> {
    /// Does what the renewal wants.
    pub(super) fn renew(&mut self, turn: Turn) {
        match turn {
            Turn::Tell(token) => {
                let (reply, answer) = oneshot::channel();
                let envelope = self.control(kind::RENEW, &Renew { token });
                self.write_control(&envelope, Expect::Control(reply));
                self.renewal.step = Step::Told(answer);
            }
            Turn::Failed(problem) => self.link.shared.tell(Event::NotRenewed(problem)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(lasts: &str) -> End {
        let mut answer = Envelope::new(kind::RENEW);
        let time = |text: &str| Timestamp::parse(text.to_owned().into()).unwrap();
        // Another year than here.
        answer.timestamp = time("2020-01-01T00:00:00Z");
        End::told(&answer, &time(lasts))
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_when_a_quarter_is_left_at_most_five_minutes() {
        let now = Instant::now();
        for (lasts, after) in [
            ("2020-01-01T00:00:40Z", 30),
            ("2020-01-01T00:20:00Z", 900),
            ("2020-01-02T00:00:00Z", 86_100),
            ("2019-12-31T23:59:59Z", 0),
        ] {
            let end = end(lasts);
            assert_eq!(
                end.in_good_time() - now,
                Duration::from_secs(after),
                "{lasts}"
            );
        }
        assert_eq!(
            end("2020-01-01T00:00:40Z").again() - now,
            Duration::from_secs(5)
        );
        assert_eq!(end("2020-01-02T00:00:00Z").again() - now, AGAIN_MAX);
        assert_eq!(end("2020-01-01T00:00:00Z").again() - now, AGAIN_MIN);
        let _no_overflow = end("9999-12-31T23:59:59Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_fails_is_asked_again_until_it_does_not() {
        let asked = std::sync::atomic::AtomicU32::new(0);
        let source = TokenSource::function(move || {
            let count = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move {
                if count < 3 {
                    Err("no answer")
                } else {
                    Ok("token".to_owned())
                }
            }
        });
        let started = Instant::now();
        let mut renewal = Renewal::new(Some(source), Some(end("2020-01-01T00:00:40Z")));
        for _ in 0..3 {
            assert!(
                matches!(renewal.turn().await, Turn::Failed(problem) if problem == "no answer")
            );
            let reason = CloseReason::NotRenewed("no answer".to_owned());
            assert_eq!(renewal.close_reason(), reason);
        }
        assert!(matches!(renewal.turn().await, Turn::Tell(token) if *token == "token"));
        let waited = started.elapsed().as_secs_f64();
        assert!((32.0..40.0).contains(&waited), "{waited} s");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_newer_end_is_a_renewal() {
        let answer = |expires_at: &str| {
            let expires_at = Timestamp::parse(expires_at.to_owned().into()).unwrap();
            let answer = Envelope::new(kind::RENEW).payload_of(&Renewed { expires_at });
            Ok(Ok(answer.unwrap()))
        };
        let old = end("2020-01-01T00:00:40Z");
        assert!(answered(answer("2020-01-01T00:00:41Z"), old).is_ok());
        for not_newer in ["2020-01-01T00:00:40Z", "2019-01-01T00:00:00Z"] {
            let problem = answered(answer(not_newer), old).unwrap_err();
            assert!(problem.contains("no token that lasts longer"), "{problem}");
        }
    }
}
