//! From a URL and options to a backend.
//!
//! Owns the forms of URLs. Names in them are taken as they are, as Paimon and Hadoop do:
//! `file:///lake/a%20b` is a directory with a per cent sign in its name.

use std::path::{Component, PathBuf};
use std::sync::Arc;

use crate::backend::Backend;
use crate::backend::local::Local;
use crate::backend::memory::Memory;
use crate::error::Result;
use crate::options::{Settings, config};
use crate::path::check_prefix;

/// A backend, its URL without trailing slash, and the prefix within it.
pub(crate) struct Opened {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) base: String,
    pub(crate) prefix: String,
}

pub(crate) fn open(url: &str, settings: &Settings) -> Result<Opened> {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => match url.strip_prefix("file:") {
            Some(rest) => ("file", rest),
            None => ("", url),
        },
    };
    match scheme {
        "" | "file" => local(scheme, url, rest),
        "memory" => {
            let (name, prefix) = split(rest);
            let prefix = check_prefix(prefix)?.to_owned();
            Ok(Opened {
                backend: Memory::named(name),
                base: format!("memory://{name}"),
                prefix,
            })
        }
        "s3" | "s3a" | "s3n" => remote::s3(url, rest, settings),
        "gs" | "gcs" => remote::gcs(url, rest, settings),
        "az" | "azure" | "abfs" | "abfss" | "wasb" | "wasbs" => remote::azure(url, rest, settings),
        _ => Err(config(format!(
            "'{url}': no store of scheme '{scheme}'; known are file:///dir, memory://name, \
             s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, or a local path"
        ))),
    }
}

/// `memory://name/prefix` and `s3://bucket/prefix`: host and the rest without slashes around.
fn split(rest: &str) -> (&str, &str) {
    let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    (host, prefix.trim_matches('/'))
}

fn local(scheme: &str, url: &str, rest: &str) -> Result<Opened> {
    let rest = match scheme {
        "file" => rest.strip_prefix("localhost").unwrap_or(rest),
        _ => rest,
    };
    if rest.is_empty() {
        return Err(config(format!("'{url}' names no directory")));
    }
    if scheme == "file" && !rest.starts_with('/') {
        return Err(config(format!(
            "'{url}': a file URL needs an absolute path, as in file:///lake/warehouse"
        )));
    }
    let absolute = std::path::absolute(rest)
        .map_err(|error| config(format!("'{url}': no absolute path")).source(error))?;
    // `..` is resolved by name, before anything exists.
    let mut root = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                root.pop();
            }
            Component::CurDir => {}
            other => root.push(other),
        }
    }
    let text = root
        .to_str()
        .ok_or_else(|| config(format!("'{url}': the path is no UTF-8 text")))?
        .to_owned();
    Ok(Opened {
        backend: Arc::new(Local::new(root)),
        base: format!("file://{}", text.trim_end_matches('/')),
        prefix: String::new(),
    })
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn named_bucket(url: &str, rest: &str) -> Result<(String, String)> {
    let (bucket, prefix) = split(rest);
    if bucket.is_empty() {
        return Err(config(format!("'{url}' names no bucket")));
    }
    Ok((bucket.to_owned(), check_prefix(prefix)?.to_owned()))
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn client_options(settings: &Settings) -> Result<object_store::ClientOptions> {
    use crate::options::Setting;
    use std::time::Duration;

    let request = settings.duration(Setting::RequestTimeout)?;
    let connect = settings.duration(Setting::ConnectTimeout)?;
    Ok(object_store::ClientOptions::new()
        .with_timeout(request.unwrap_or(Duration::from_secs(60)))
        .with_connect_timeout(connect.unwrap_or(Duration::from_secs(5))))
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn no_retries() -> object_store::RetryConfig {
    object_store::RetryConfig {
        max_retries: 0,
        ..object_store::RetryConfig::default()
    }
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn broken(url: &str, error: object_store::Error) -> crate::StoreError {
    config(format!("'{url}' cannot be opened")).source(error)
}

mod remote {
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    use std::sync::Arc;

    use super::{Opened, config};
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    use super::{broken, client_options, named_bucket, no_retries};
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    use crate::backend::{Scheme, remote::Remote, wire::NotingConnector};
    use crate::error::Result;
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    use crate::options::Setting;
    use crate::options::Settings;

    #[cfg(feature = "s3")]
    pub(super) fn s3(url: &str, rest: &str, settings: &Settings) -> Result<Opened> {
        use crate::backend::s3_uploads::S3Uploads;
        use object_store::aws::{
            AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, S3ConditionalPut,
        };

        let (bucket, prefix) = named_bucket(url, rest)?;
        let conditional = match settings.text(Setting::S3ConditionalPut) {
            None | Some("etag") => true,
            Some("disabled") => false,
            Some(other) => {
                return Err(config(format!(
                    "store option 's3.conditional-put' is '{other}', must be etag or disabled"
                )));
            }
        };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&bucket)
            .with_http_connector(NotingConnector)
            .with_retry(no_retries())
            .with_conditional_put(if conditional {
                S3ConditionalPut::ETagMatch
            } else {
                S3ConditionalPut::Disabled
            });
        let mut options = client_options(settings)?;
        let path_style = settings.flag(Setting::S3PathStyle)?;
        let endpoint = settings
            .text(Setting::S3Endpoint)
            .map(str::to_owned)
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint))
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
        let region = settings
            .text(Setting::S3Region)
            .map(str::to_owned)
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Region))
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::DefaultRegion))
            .unwrap_or_else(|| "us-east-1".to_owned());
        builder = builder.with_region(region.as_str());
        let bucket_url = match endpoint {
            Some(endpoint) => {
                let endpoint = if endpoint.contains("://") {
                    endpoint
                } else {
                    format!("https://{endpoint}")
                };
                let endpoint = endpoint.trim_end_matches('/');
                options = options.with_allow_http(endpoint.starts_with("http://"));
                // Our keys follow Paimon's: the endpoint never holds the bucket.
                let endpoint = match (path_style, endpoint.split_once("://")) {
                    (Some(false), Some((scheme, host))) => format!("{scheme}://{bucket}.{host}"),
                    _ => endpoint.to_owned(),
                };
                builder = builder
                    .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.as_str())
                    .with_virtual_hosted_style_request(path_style == Some(false));
                match path_style {
                    Some(false) => endpoint,
                    _ => format!("{endpoint}/{bucket}"),
                }
            }
            None => {
                builder = builder.with_virtual_hosted_style_request(path_style != Some(true));
                match path_style {
                    Some(true) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
                    _ => format!("https://{bucket}.s3.{region}.amazonaws.com"),
                }
            }
        };
        builder = builder.with_client_options(options.clone());
        let key = settings.text(Setting::S3KeyId);
        let secret = settings.text(Setting::S3Secret);
        match (key, secret) {
            (Some(key), Some(secret)) => {
                // Given here, none of the environment's parts may be mixed in.
                let credential = AwsCredential {
                    key_id: key.to_owned(),
                    secret_key: secret.to_owned(),
                    token: settings.text(Setting::S3SessionToken).map(str::to_owned),
                };
                builder = builder.with_credentials(Arc::new(
                    object_store::StaticCredentialProvider::new(credential),
                ));
            }
            (None, None) => {}
            _ => {
                return Err(config(
                    "s3.access-key and s3.secret-key must be given together, or neither \
                     (then AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are used)",
                ));
            }
        }
        let anonymous = settings.flag(Setting::S3Anonymous)?.unwrap_or(false);
        builder = builder.with_skip_signature(anonymous);
        if let Some(unsigned) = settings.flag(Setting::S3UnsignedPayload)? {
            builder = builder.with_unsigned_payload(unsigned);
        }
        let store = builder.build().map_err(|error| broken(url, error))?;
        let uploads = S3Uploads {
            bucket_url,
            region,
            credentials: (!anonymous).then(|| Arc::clone(store.credentials())),
            options,
            client: std::sync::OnceLock::new(),
        };
        let pending = Some(Box::new(uploads) as _);
        Ok(Opened {
            backend: Arc::new(Remote::new(
                Arc::new(store),
                Scheme::S3,
                conditional,
                pending,
            )),
            base: format!("s3://{bucket}"),
            prefix,
        })
    }

    #[cfg(feature = "gcs")]
    pub(super) fn gcs(url: &str, rest: &str, settings: &Settings) -> Result<Opened> {
        let (bucket, prefix) = named_bucket(url, rest)?;
        let mut builder = object_store::gcp::GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(&bucket)
            .with_http_connector(NotingConnector)
            .with_client_options(client_options(settings)?)
            .with_retry(no_retries());
        if let Some(path) = settings.text(Setting::GcsServiceAccount) {
            builder = builder.with_service_account_path(path);
        }
        let store = builder.build().map_err(|error| broken(url, error))?;
        Ok(Opened {
            backend: Arc::new(Remote::new(Arc::new(store), Scheme::Gcs, true, None)),
            base: format!("gs://{bucket}"),
            prefix,
        })
    }

    #[cfg(feature = "azure")]
    pub(super) fn azure(url: &str, rest: &str, settings: &Settings) -> Result<Opened> {
        let (host, prefix) = named_bucket(url, rest)?;
        let (container, account) = match host.split_once('@') {
            Some((container, host)) => (
                container.to_owned(),
                host.split('.').next().map(str::to_owned),
            ),
            None => (host.clone(), None),
        };
        let mut options = client_options(settings)?;
        let mut builder = object_store::azure::MicrosoftAzureBuilder::from_env()
            .with_container_name(&container)
            .with_http_connector(NotingConnector)
            .with_retry(no_retries());
        if let Some(account) = settings
            .text(Setting::AzureAccount)
            .map(str::to_owned)
            .or(account)
        {
            builder = builder.with_account(account);
        }
        if let Some(key) = settings.text(Setting::AzureSecret) {
            builder = builder.with_access_key(key);
        }
        if let Some(token) = settings.text(Setting::AzureSas) {
            builder = builder.with_config(object_store::azure::AzureConfigKey::SasKey, token);
        }
        if let Some(endpoint) = settings.text(Setting::AzureEndpoint) {
            options = options.with_allow_http(endpoint.starts_with("http://"));
            builder = builder.with_endpoint(endpoint.to_owned());
        }
        let store = builder
            .with_client_options(options)
            .build()
            .map_err(|error| broken(url, error))?;
        Ok(Opened {
            backend: Arc::new(Remote::new(Arc::new(store), Scheme::Azure, true, None)),
            base: format!("az://{host}"),
            prefix,
        })
    }

    #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
    fn absent(url: &str, feature: &str) -> Result<Opened> {
        Err(config(format!(
            "'{url}': this build has no support for it; build with the feature '{feature}'"
        )))
    }

    #[cfg(not(feature = "s3"))]
    pub(super) fn s3(url: &str, _rest: &str, _settings: &Settings) -> Result<Opened> {
        absent(url, "s3")
    }

    #[cfg(not(feature = "gcs"))]
    pub(super) fn gcs(url: &str, _rest: &str, _settings: &Settings) -> Result<Opened> {
        absent(url, "gcs")
    }

    #[cfg(not(feature = "azure"))]
    pub(super) fn azure(url: &str, _rest: &str, _settings: &Settings) -> Result<Opened> {
        absent(url, "azure")
    }
}
