use crate::error::TraceError;
use crate::sink::Sink;
use crate::source::Source;
pub(crate) fn read(s: &mut Source<'_>, _: &mut dyn Sink) -> Result<(), TraceError> {
    Err(TraceError::unsupported(s.offset(), "soon"))
}
pub(crate) fn looks_like(_: &[u8]) -> bool {
    false
}
