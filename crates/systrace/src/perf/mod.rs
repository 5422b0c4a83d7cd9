use crate::error::TraceError;
use crate::sink::Sink;
use crate::source::Source;
pub(crate) fn read_script(s: &mut Source<'_>, _: &mut dyn Sink) -> Result<(), TraceError> {
    Err(TraceError::unsupported(s.offset(), "soon"))
}
pub(crate) fn read_data(s: &mut Source<'_>, _: &mut dyn Sink) -> Result<(), TraceError> {
    Err(TraceError::unsupported(s.offset(), "soon"))
}
pub(crate) fn read_simpleperf(s: &mut Source<'_>, _: &mut dyn Sink) -> Result<(), TraceError> {
    Err(TraceError::unsupported(s.offset(), "soon"))
}
pub(crate) fn is_script_head(_: &[u8]) -> bool {
    false
}
