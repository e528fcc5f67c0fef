//! What is told to whoever listens to `tracing` events. In a program of its own: who listens is
//! kept for the whole process, and other tests would tell of themselves.

use pinfold::{Memory, Platform};
use pinfold_hal_sim::{Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::{Arc, Mutex};

/// Notes the level and the room of every event.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(tracing::Level, String)>>>);

impl tracing::Subscriber for Notes {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let note = (*metadata.level(), metadata.target().to_owned());
        if let Ok(mut notes) = self.0.lock() {
            notes.push(note);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn growth_and_steps_down_are_told_and_hits_are_silent() {
    let options = SimOptions::new(Profile::h200()).pin_limit(Some(16 << 20));
    let platform = Platform::with_driver(Arc::new(Sim::new(options)));
    let memory = Memory::new(&platform.device(0).unwrap());
    let notes = Notes::default();
    let told = |work: &dyn Fn()| {
        tracing::subscriber::with_default(notes.clone(), work);
        std::mem::take(&mut *notes.0.lock().unwrap())
    };
    let grown = told(&|| drop(memory.upload::<u8>(1 << 20).unwrap()));
    assert_eq!(
        grown,
        [(tracing::Level::DEBUG, "pinfold::pool::growth".to_owned())]
    );
    assert_eq!(told(&|| drop(memory.upload::<u8>(1 << 20).unwrap())), []);
    let stepped = told(&|| drop(memory.upload::<u8>(64 << 20).unwrap()));
    let warned = |note: &(tracing::Level, String)| {
        note.0 == tracing::Level::WARN && note.1 == "pinfold::memory::ladder"
    };
    assert!(stepped.iter().any(warned), "{stepped:?}");
}
