//! Where a client's bearer token comes from.
//!
//! Before a frame's way: asked at every connect, and again in good time before the token ends.

use std::{error::Error, fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc};

use zeroize::Zeroizing;

use crate::limits::TOKEN_BYTES_MAX;

/// A source of bearer tokens (RFC 6750). A fixed one is a `&str` or `String`.
#[derive(Clone)]
pub struct TokenSource(Source);

#[derive(Clone)]
enum Source {
    Fixed(Token),
    File(PathBuf),
    Function(Arc<dyn Fn() -> Asked<String> + Send + Sync>),
}

/// A token, wiped from memory when it was used.
pub(super) type Token = Zeroizing<String>;

/// A token, or what is wrong, on its way.
type Asked<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Fixed(_) => f.write_str("TokenSource::fixed(…)"),
            Source::File(path) => write!(f, "TokenSource::file({path:?})"),
            Source::Function(_) => f.write_str("TokenSource::function(…)"),
        }
    }
}

impl From<String> for TokenSource {
    fn from(token: String) -> Self {
        TokenSource(Source::Fixed(Zeroizing::new(token)))
    }
}

impl From<&str> for TokenSource {
    fn from(token: &str) -> Self {
        token.to_owned().into()
    }
}

impl TokenSource {
    /// A file with the token and nothing else, read again whenever one is needed.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        TokenSource(Source::File(path.into()))
    }

    /// A function, called whenever a token is needed; its errors are told as they are.
    pub fn function<F, T, E>(ask: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let asking = move || -> Asked<String> {
            let asked = ask();
            Box::pin(async move { asked.await.map_err(|error| error.into().to_string()) })
        };
        TokenSource(Source::Function(Arc::new(asking)))
    }

    /// Whether it may give another token than before.
    pub(super) fn is_renewable(&self) -> bool {
        !matches!(self.0, Source::Fixed(_))
    }

    /// A token for now; or why there is none, without a word of what was given.
    pub(super) fn ask(&self) -> Asked<Token> {
        let source = self.0.clone();
        Box::pin(async move {
            let given = match source {
                Source::Fixed(token) => token,
                Source::Function(ask) => Zeroizing::new(ask().await?),
                Source::File(path) => {
                    let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
                    let file = path.clone();
                    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file));
                    let read = read.await.map_err(|error| named(&error))?;
                    Zeroizing::new(read.map_err(|error| named(&error))?)
                }
            };
            checked(&given)
        })
    }

    /// What is wrong with it from the start.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.0 {
            Source::Fixed(token) => checked(token).map(drop),
            Source::File(_) | Source::Function(_) => Ok(()),
        }
    }
}

/// A token as it can stand in a header.
fn checked(given: &str) -> Result<Token, String> {
    let token = given.trim();
    if token.is_empty() {
        return Err("the token is empty".to_owned());
    }
    if token.len() > TOKEN_BYTES_MAX {
        let bytes = token.len();
        return Err(format!(
            "the token has {bytes} bytes; Harbor reads {TOKEN_BYTES_MAX}"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the token holds something else than letters, digits and signs".to_owned());
    }
    Ok(Zeroizing::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_source_gives_its_token_and_shows_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, " a.secret.token\n").unwrap();
        let function = TokenSource::function(async || Ok::<_, String>("a.secret.token".into()));
        for (source, is_renewable) in [
            ("a.secret.token".into(), false),
            (TokenSource::file(&path), true),
            (function, true),
        ] {
            assert_eq!(*source.ask().await.unwrap(), "a.secret.token");
            assert_eq!(source.is_renewable(), is_renewable);
            assert!(!format!("{source:?}").contains("secret"));
        }
    }

    #[tokio::test]
    async fn what_is_no_token_is_told_without_it() {
        let failing = TokenSource::function(async || Err::<String, _>("no answer"));
        assert_eq!(failing.ask().await.unwrap_err(), "no answer");
        let missing = TokenSource::file("/no/such/token").ask().await.unwrap_err();
        assert!(missing.starts_with("/no/such/token: "), "{missing}");
        for text in [
            "",
            " \n",
            "secret word",
            "secret\u{e9}",
            &"secret".repeat(2_000),
        ] {
            let source = TokenSource::from(text);
            let problem = source.check().unwrap_err();
            assert_eq!(source.ask().await.unwrap_err(), problem);
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
