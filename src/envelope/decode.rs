//! Reading an envelope out of a frame, by borrowing from it.
//!
//! Stage 1 of a frame's way in Harbor, and what a client does with a delivery. One pass over the
//! frame after [`crate::json::check_text`]; the payload is kept as the bytes it came in.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashSet,
    fmt,
};

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Endpoint, Envelope, TargetType};
use crate::{
    address::{self, Kind},
    canonical::Covered,
    json,
    limits::{CAPABILITIES_MAX, PRIORITY_DEFAULT, PRIORITY_MAX},
    refusal::{Code, Refusal},
    timestamp::Timestamp,
};

/// A frame that was refused, with its `id` where one could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct Refused {
    /// The frame's `id`.
    pub id: Option<String>,
    /// Why.
    #[source]
    pub refusal: Refusal,
}

impl<'a> Envelope<'a> {
    /// Reads one frame.
    ///
    /// # Errors
    ///
    /// Every rule of `docs/PROTOCOL.md`, "What is refused at the edge", with its code and the field
    /// at fault.
    pub fn decode(frame: &'a str) -> Result<Self, Refused> {
        read(frame).map_err(|refusal| Refused {
            id: readable_id(frame),
            refusal,
        })
    }
}

fn read(frame: &str) -> Result<Envelope<'_>, Refusal> {
    json::check_text(frame)?;
    let cx = Context::default();
    let mut reader = serde_json::Deserializer::from_str(frame);
    let mut envelope = (&mut reader)
        .deserialize_map(EnvelopeVisitor(&cx))
        .map_err(|error| cx.refusal(&error))?;
    reader.end().map_err(|error| {
        let reason = format!("bytes after the closing brace, at byte {}", error.column());
        Refusal::new(Code::Malformed, reason)
    })?;
    if !envelope.signature.is_empty() {
        match Covered::of_canonical(frame) {
            Some(covered) => envelope.covered = covered,
            None => json::check_duplicate_keys("payload", &envelope.payload)?,
        }
    }
    Ok(envelope)
}

/// The `id` of a refused frame: read again, leniently, on this path only.
fn readable_id(frame: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct OnlyId {
        id: String,
    }
    // A stream reader stops after the first value, so bytes behind it do not hide the id.
    let mut values = serde_json::Deserializer::from_str(frame).into_iter::<OnlyId>();
    let OnlyId { id } = values.next()?.ok()?;
    address::check(Kind::MessageId, "id", &id).ok()?;
    Some(id).filter(|id| !id.is_empty())
}

/// Where the reader stands, so that a failure can name its field.
#[derive(Default)]
struct Context {
    object: Cell<&'static str>,
    field: Cell<&'static str>,
    problem: RefCell<Option<Refusal>>,
}

impl Context {
    fn path(&self) -> String {
        match (self.object.get(), self.field.get()) {
            ("", field) => field.to_owned(),
            (object, "") => object.to_owned(),
            (object, field) => format!("{object}.{field}"),
        }
    }

    /// Stops the reader with a refusal of the current field.
    fn stop<E: de::Error>(&self, code: Code, reason: impl Into<Cow<'static, str>>) -> E {
        self.stop_with(Refusal::of_field(code, self.path(), reason))
    }

    fn stop_with<E: de::Error>(&self, refusal: Refusal) -> E {
        let error = E::custom(&refusal);
        self.problem.replace(Some(refusal));
        error
    }

    /// What to tell the sender about the reader's error.
    fn refusal(&self, error: &serde_json::Error) -> Refusal {
        if let Some(refusal) = self.problem.take() {
            return refusal;
        }
        let path = self.path();
        if error.is_data() && !path.is_empty() {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            return Refusal::of_field(Code::InvalidField, path.clone(), format!("{path}: {what}"));
        }
        Refusal::new(Code::Malformed, format!("not a JSON object: {error}"))
    }

    fn text<'de, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        kind: Kind,
    ) -> Result<Cow<'de, str>, A::Error> {
        let text = map
            .next_value::<Option<Text<'de>>>()?
            .map_or(Cow::Borrowed(""), |text| text.0);
        address::check(kind, self.field.get(), &text)
            .map_err(|refusal| self.stop(refusal.code, refusal.reason))?;
        Ok(text)
    }

    fn texts<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Vec<Cow<'de, str>>, A::Error> {
        let texts = map
            .next_value::<Option<Vec<Text<'de>>>>()?
            .unwrap_or_default();
        for Text(text) in &texts {
            address::check(Kind::Name, self.field.get(), text)
                .map_err(|refusal| self.stop(refusal.code, refusal.reason))?;
        }
        Ok(texts.into_iter().map(|text| text.0).collect())
    }

    fn flag<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<bool, A::Error> {
        Ok(map.next_value::<Option<bool>>()?.unwrap_or_default())
    }

    fn time<'de, A: MapAccess<'de>>(
        &self,
        map: &mut A,
    ) -> Result<Option<Timestamp<'de>>, A::Error> {
        let text = self.text(map, Kind::Text)?;
        if text.is_empty() {
            return Ok(None);
        }
        let reason = "is not an RFC 3339 time with offset, such as 2026-03-01T12:00:00.5Z";
        match Timestamp::parse(text) {
            Some(time) => Ok(Some(time)),
            None => Err(self.stop(Code::InvalidField, format!("{} {reason}", self.field.get()))),
        }
    }

    fn ttl<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<u64, A::Error> {
        match map.next_value::<Option<serde_json::Number>>()? {
            None => Ok(0),
            Some(number) if number.is_u64() => Ok(number.as_u64().unwrap_or(u64::MAX)),
            // Integers beyond u64 reach us as floats; they are clamped like other huge ones.
            Some(number) if number.as_f64().is_some_and(|ttl| ttl >= u64::MAX as f64) => {
                Ok(u64::MAX)
            }
            Some(number) => {
                let reason = format!("ttl is {number}; it is a whole number of seconds, 0 or more");
                Err(self.stop(Code::InvalidField, reason))
            }
        }
    }

    fn priority<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<u8, A::Error> {
        match map.next_value::<Option<u8>>()? {
            None | Some(0) => Ok(PRIORITY_DEFAULT),
            Some(priority) if priority <= PRIORITY_MAX => Ok(priority),
            Some(priority) => {
                let reason = format!("priority is {priority}; it is 0 to {PRIORITY_MAX}");
                Err(self.stop(Code::InvalidField, reason))
            }
        }
    }

    fn target_type<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<TargetType, A::Error> {
        match &*self.text(map, Kind::Name)? {
            "" | "all" => Ok(TargetType::All),
            "role" => Ok(TargetType::Role),
            "specific" => Ok(TargetType::Specific),
            other => {
                let reason = format!("target_type is {other:?}; it is all, role or specific");
                Err(self.stop(Code::InvalidField, reason))
            }
        }
    }
}

/// A string, borrowed where it holds no escapes.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Notes a known key as seen, refusing it the second time. `KEYS` is the object's vocabulary.
fn first_time<E: de::Error>(cx: &Context, seen: &mut u32, at: usize) -> Result<(), E> {
    if *seen & (1 << at) != 0 {
        return Err(cx.stop(Code::DuplicateKey, format!("{} is given twice", cx.path())));
    }
    *seen |= 1 << at;
    Ok(())
}

const KEYS: [&str; 21] = [
    "id",
    "version",
    "type",
    "sender",
    "receiver",
    "correlation_id",
    "reply_to",
    "group_id",
    "payload",
    "timestamp",
    "signature",
    "conversation_id",
    "ttl",
    "broadcast",
    "encrypt",
    "target_type",
    "target_ids",
    "signature_algorithm",
    "priority",
    "expires_at",
    "harbor",
];

struct EnvelopeVisitor<'c>(&'c Context);

impl<'de> Visitor<'de> for EnvelopeVisitor<'_> {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope, which is a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let cx = self.0;
        let mut envelope: Envelope<'de> = Envelope::new("");
        envelope.version = Cow::Borrowed("");
        let (mut payload, mut timestamp) = (None, None);
        let mut seen = 0_u32;
        let mut others = HashSet::new();
        while let Some(Text(key)) = map.next_key()? {
            let Some(at) = KEYS.iter().position(|known| *known == key) else {
                if !others.insert(key.clone()) {
                    let reason = format!("{key} is given twice");
                    return Err(cx.stop_with(Refusal::of_field(
                        Code::DuplicateKey,
                        key.into_owned(),
                        reason,
                    )));
                }
                cx.field.set("");
                envelope
                    .other
                    .push((key, Cow::Borrowed(map.next_value::<&RawValue>()?)));
                continue;
            };
            cx.field.set(KEYS[at]);
            first_time(cx, &mut seen, at)?;
            match KEYS[at] {
                "payload" => payload = Some(map.next_value::<&RawValue>()?),
                "timestamp" => timestamp = cx.time(&mut map)?,
                _ => read_field(cx, &mut map, &mut envelope)?,
            }
        }
        envelope.payload = match payload {
            Some(payload) => Cow::Borrowed(payload),
            None => return Err(missing(cx, "payload")),
        };
        envelope.timestamp = timestamp.ok_or_else(|| missing(cx, "timestamp"))?;
        check_required(cx, &envelope)?;
        Ok(envelope)
    }
}

/// Reads the field the context stands at into its place.
fn read_field<'de, A: MapAccess<'de>>(
    cx: &Context,
    map: &mut A,
    envelope: &mut Envelope<'de>,
) -> Result<(), A::Error> {
    match cx.field.get() {
        "id" => envelope.id = cx.text(map, Kind::MessageId)?,
        "version" => envelope.version = cx.text(map, Kind::Name)?,
        "type" => envelope.kind = cx.text(map, Kind::Name)?,
        "sender" => envelope.sender = read_endpoint(cx, map)?.unwrap_or_default(),
        "receiver" => envelope.receiver = read_endpoint(cx, map)?,
        "correlation_id" => envelope.correlation_id = cx.text(map, Kind::MessageId)?,
        "reply_to" => envelope.reply_to = cx.text(map, Kind::Name)?,
        "group_id" => envelope.group_id = cx.text(map, Kind::Name)?,
        "signature" => envelope.signature = cx.text(map, Kind::Text)?,
        "conversation_id" => envelope.conversation_id = cx.text(map, Kind::Name)?,
        "ttl" => envelope.ttl_seconds = cx.ttl(map)?,
        "broadcast" => envelope.broadcast = cx.flag(map)?,
        "encrypt" => envelope.encrypt = cx.flag(map)?,
        "target_type" => envelope.target_type = cx.target_type(map)?,
        "target_ids" => envelope.target_ids = cx.texts(map)?,
        "signature_algorithm" => envelope.signature_algorithm = cx.text(map, Kind::Name)?,
        "priority" => envelope.priority = cx.priority(map)?,
        "expires_at" => envelope.expires_at = cx.time(map)?,
        // Also `null`: a receiver would see the key twice once Harbor adds its own.
        _ => envelope.harbor = Some(Cow::Borrowed(map.next_value()?)),
    }
    Ok(())
}

fn missing<E: de::Error>(cx: &Context, field: &'static str) -> E {
    let reason = format!("{field} is required");
    cx.stop_with(Refusal::of_field(Code::MissingField, field, reason))
}

fn check_required<E: de::Error>(cx: &Context, envelope: &Envelope<'_>) -> Result<(), E> {
    let required: [(&'static str, &str); 4] = [
        ("id", &envelope.id),
        ("version", &envelope.version),
        ("type", &envelope.kind),
        ("sender.agent_id", &envelope.sender.agent_id),
    ];
    for (field, text) in required {
        if text.is_empty() {
            return Err(missing(cx, field));
        }
    }
    if envelope.version.split('.').next() != Some("1") {
        let reason = format!("version is {:?}; this is version 1", envelope.version);
        return Err(cx.stop_with(Refusal::of_field(
            Code::UnsupportedVersion,
            "version",
            reason,
        )));
    }
    Ok(())
}

/// Reads `sender` or `receiver`; an endpoint with nothing in it is an absent one.
fn read_endpoint<'de, A: MapAccess<'de>>(
    cx: &Context,
    map: &mut A,
) -> Result<Option<Endpoint<'de>>, A::Error> {
    let object = cx.field.get();
    cx.object.set(object);
    cx.field.set("");
    let endpoint = map.next_value_seed(EndpointSeed(cx))?;
    cx.object.set("");
    cx.field.set(object);
    let Some(endpoint) = endpoint.filter(|endpoint| *endpoint != Endpoint::default()) else {
        return Ok(None);
    };
    if endpoint.agent_id.is_empty() {
        let field = if object == "sender" {
            "sender.agent_id"
        } else {
            "receiver.agent_id"
        };
        return Err(missing(cx, field));
    }
    Ok(Some(endpoint))
}

const ENDPOINT_KEYS: [&str; 6] = [
    "agent_id",
    "agent_name",
    "endpoint",
    "system_id",
    "version",
    "capabilities",
];

struct EndpointSeed<'c>(&'c Context);

impl<'de> DeserializeSeed<'de> for EndpointSeed<'_> {
    type Value = Option<Endpoint<'de>>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for EndpointSeed<'_> {
    type Value = Option<Endpoint<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an endpoint, which is a JSON object")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let cx = self.0;
        let mut endpoint = Endpoint::default();
        let mut seen = 0_u32;
        let mut others = HashSet::new();
        while let Some(Text(key)) = map.next_key()? {
            let Some(at) = ENDPOINT_KEYS.iter().position(|known| *known == key) else {
                cx.field.set("");
                if !others.insert(key.clone()) {
                    return Err(cx.stop(Code::DuplicateKey, format!("{key} is given twice")));
                }
                map.next_value::<de::IgnoredAny>()?;
                continue;
            };
            cx.field.set(ENDPOINT_KEYS[at]);
            first_time(cx, &mut seen, at)?;
            match ENDPOINT_KEYS[at] {
                "agent_id" => endpoint.agent_id = cx.text(&mut map, Kind::Name)?,
                "agent_name" => endpoint.agent_name = cx.text(&mut map, Kind::Text)?,
                "endpoint" => endpoint.endpoint = cx.text(&mut map, Kind::Text)?,
                "system_id" => endpoint.system_id = cx.text(&mut map, Kind::Name)?,
                "version" => endpoint.version = cx.text(&mut map, Kind::Text)?,
                _ => endpoint.capabilities = cx.texts(&mut map)?,
            }
        }
        if endpoint.capabilities.len() > CAPABILITIES_MAX {
            cx.field.set("capabilities");
            let reason = format!("at most {CAPABILITIES_MAX} capabilities are allowed");
            return Err(cx.stop(Code::InvalidField, reason));
        }
        Ok(Some(endpoint))
    }
}
