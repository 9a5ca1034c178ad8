//! Where the table of a cell is: a folder, or an S3 server behind the proxy.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use tidegate_test_services::S3Server;
use tidegate_tests::mirror;
use tidegate_tests::proxy::Proxy;

/// A place with one empty table, its id and name columns, unaware buckets.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    s3: Option<(&'static S3Server, Proxy)>,
}

/// Written by nobody who is judged: the schema file as Java's catalog writes it. Manifests are not
/// compressed, so that their bytes name what they refer to.
const SCHEMA: &str = r#"{
  "version" : 3,
  "id" : 0,
  "fields" : [ {
    "id" : 0,
    "name" : "id",
    "type" : "BIGINT"
  }, {
    "id" : 1,
    "name" : "name",
    "type" : "STRING"
  } ],
  "highestFieldId" : 1,
  "partitionKeys" : [ ],
  "primaryKeys" : [ ],
  "options" : {
    "bucket" : "-1",
    "manifest.compression" : "null"
  },
  "comment" : "",
  "timeMillis" : 1790000000000
}"#;

const TABLE: &str = "warehouse/db.db/t";

impl Place {
    /// A folder. It stays there in the end where it is to be kept.
    pub fn local(keep: bool) -> Self {
        let place = Self::empty(None, keep);
        let schema = place.folder.path().join(TABLE).join("schema");
        fs::create_dir_all(&schema).unwrap();
        fs::write(schema.join("schema-0"), SCHEMA).unwrap();
        place
    }

    /// A prefix on MiniStack, reached through a proxy.
    ///
    /// # Errors
    /// Where the server cannot be installed or started.
    pub fn s3(keep: bool) -> Result<Self, String> {
        let server = S3Server::shared().map_err(|e| format!("no S3 server: {e}"))?;
        let proxy = Proxy::start(&server.endpoint);
        let place = Self::empty(Some((server, proxy)), keep);
        let key = format!("{}/{TABLE}/schema/schema-0", place.prefix());
        mirror::upload(server, &key, SCHEMA.as_bytes());
        Ok(place)
    }

    fn empty(s3: Option<(&'static S3Server, Proxy)>, keep: bool) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tidegate-torture-")
            .disable_cleanup(keep)
            .tempdir();
        Self {
            folder: folder.unwrap(),
            s3,
        }
    }

    fn prefix(&self) -> String {
        let name = self.folder.path().file_name().unwrap();
        name.to_string_lossy().into_owned()
    }

    fn url(&self, below: &str) -> String {
        match &self.s3 {
            None => format!("file:{}/{below}", self.folder.path().display()),
            Some((server, _)) => server.url(&format!("{}/{below}", self.prefix())),
        }
    }

    /// The table, as the line protocol names it.
    pub fn table(&self) -> String {
        self.url(TABLE)
    }

    /// Where a stream of ours keeps its checkpoints: on the local disk, as an engine's.
    pub fn checkpoints(&self) -> PathBuf {
        self.folder.path().join("checkpoints")
    }

    /// Options of the store, in Java's keys, through the proxy.
    pub fn conf(&self) -> Value {
        let Some((server, proxy)) = &self.s3 else {
            return json!({});
        };
        let mut options = server.options();
        options.insert("s3.endpoint".to_owned(), proxy.endpoint());
        json!(options)
    }

    /// The proxy, where there is one.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.s3.as_ref().map(|(_, proxy)| proxy)
    }

    /// The folder of snapshots; of a local table only.
    pub fn snapshots(&self) -> Option<PathBuf> {
        let local = self.s3.is_none();
        local.then(|| self.folder.path().join(TABLE).join("snapshot"))
    }

    /// The table's folder; of a table on S3 a copy of it. Where that stays, it is this one.
    pub fn folder(&self) -> PathBuf {
        let Some((server, _)) = &self.s3 else {
            return self.folder.path().join(TABLE);
        };
        let copy = self.folder.path().join("copy").join(TABLE);
        let _gone = fs::remove_dir_all(&copy);
        mirror::download(server, &format!("{}/{TABLE}/", self.prefix()), &copy);
        copy
    }
}
