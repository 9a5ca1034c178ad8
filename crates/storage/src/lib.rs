//! Object stores by URL with an honest create-if-absent, metering, fault injection and a conformance suite.
