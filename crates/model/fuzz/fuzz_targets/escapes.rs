//! Directory names: unescaping never panics and undoes escaping; object names are read or ignored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_model::layout;

fuzz_target!(|text: &str| {
    let _ = layout::unescape(text);
    assert_eq!(layout::unescape(&layout::escape(text)), text);
    let _ = (
        layout::snapshot_id(text),
        layout::bucket_of_dir(text),
        layout::format_of(text),
    );
    let _ = (
        layout::tag_name(text),
        layout::epoch_of(text),
        layout::database_name(text),
    );
});
