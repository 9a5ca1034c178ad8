//! Tells the program which release of the `paimon` crate it was built with.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"paimon\"\n"))
        .and_then(|package| package.split("version = \"").nth(1))
        .and_then(|rest| rest.split('"').next());
    println!(
        "cargo::rustc-env=PAIMON_VERSION={}",
        version.unwrap_or("unknown")
    );
}
