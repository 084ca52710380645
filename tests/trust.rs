//! Goal: nobody gets in, speaks as another or alters what is not theirs.
//! Method: a Harbor that requires signatures; frames that were signed rightly and then touched, keys that are not or no
//! longer valid, strangers. After each the receiver's next message shows that nothing came before it.

mod algorithms;
mod ciphertext;
mod clocks;
mod crowd;
mod keys;
mod policy;
mod registration;
mod strangers;
mod tampering;
