// SPDX-License-Identifier: Apache-2.0
//! Conformance vectors as scripts/gen_vectors.py writes them, and how a result is compared with what one expects.

use std::path::Path;

use hvd::{bf16, f16, AnyTensor, Bool, DType, Element, ReduceOp, Tensor};
use serde_json::Value;

type Result<T> = std::result::Result<T, String>;

/// An element as bytes, little end first as in the files.
pub trait Number: Element {
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Exact for the small integers of fills.
    fn from_integer(value: i64) -> Self;
    fn to_bytes(self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($element:ty: |$value:ident| $from:expr,)*) => {$(
        impl Number for $element {
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("bytes of one element"))
            }
            fn from_integer($value: i64) -> Self {
                $from
            }
            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )*};
}

numbers! {
    u8: |value| value as u8,
    i8: |value| value as i8,
    u16: |value| value as u16,
    i16: |value| value as i16,
    i32: |value| value as i32,
    i64: |value| value,
    f16: |value| f16::from_f64(value as f64),
    bf16: |value| bf16::from_f64(value as f64),
    f32: |value| value as f32,
    f64: |value| value as f64,
}

impl Number for Bool {
    fn from_bytes(bytes: &[u8]) -> Self {
        Bool::from_byte(bytes[0])
    }
    fn from_integer(value: i64) -> Self {
        Bool::from_byte(value as u8)
    }
    fn to_bytes(self) -> Vec<u8> {
        vec![self.to_byte()]
    }
}

/// Calls a function for the type of a dtype.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $element:ident => $call:expr) => {
        match $dtype {
            hvd::DType::UInt8 => {
                type $element = u8;
                $call
            }
            hvd::DType::Int8 => {
                type $element = i8;
                $call
            }
            hvd::DType::UInt16 => {
                type $element = u16;
                $call
            }
            hvd::DType::Int16 => {
                type $element = i16;
                $call
            }
            hvd::DType::Int32 => {
                type $element = i32;
                $call
            }
            hvd::DType::Int64 => {
                type $element = i64;
                $call
            }
            hvd::DType::Float16 => {
                type $element = hvd::f16;
                $call
            }
            hvd::DType::Float32 => {
                type $element = f32;
                $call
            }
            hvd::DType::Float64 => {
                type $element = f64;
                $call
            }
            hvd::DType::Bool => {
                type $element = hvd::Bool;
                $call
            }
            hvd::DType::BFloat16 => {
                type $element = hvd::bf16;
                $call
            }
            other => unreachable!("the runner knows no {other}"),
        }
    };
}

pub struct Given {
    pub dtype: DType,
    pub shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Given {
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn tensor<T: Number>(&self) -> Tensor<T> {
        let data = self.bytes.chunks(size_of::<T>()).map(T::from_bytes).collect();
        Tensor::new(data, &self.shape).expect("read_given has compared the sizes")
    }

    pub fn any(&self) -> AnyTensor {
        with_element!(self.dtype, T => self.tensor::<T>().into())
    }
}

pub struct Expected {
    pub given: Given,
    ulp: i64,
    crc32: Option<u32>,
}

#[derive(Default)]
pub struct Part {
    pub member: bool,
    pub joins: bool,
    pub op: String,
    pub reduce: ReduceOp,
    pub root: usize,
    pub prescale: f64,
    pub postscale: f64,
    pub input: Vec<Given>,
    pub expect: Vec<Expected>,
    /// As the library takes them: a negative number is one that no rank has as many rows for.
    pub splits: Option<Vec<usize>>,
    pub expect_splits: Option<Vec<usize>>,
}

pub struct Vector {
    pub name: String,
    pub size: usize,
    pub grouped: bool,
    pub bitwise: bool,
    pub any_joined: bool,
    pub set: Option<Vec<usize>>,
    pub expect_status: Option<String>,
    pub expect_message_has: Vec<String>,
    pub parts: Vec<Part>,
}

fn dtype_of(name: &str) -> Result<DType> {
    use DType::*;
    let all = [UInt8, Int8, UInt16, Int16, Int32, Int64, Float16, Float32, Float64, Bool, BFloat16];
    all.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| format!("no dtype named {name}"))
}

fn reduce_of(name: &str) -> Result<ReduceOp> {
    use ReduceOp::*;
    let all = [("average", Average), ("sum", Sum), ("adasum", Adasum), ("min", Min), ("max", Max), ("product", Product)];
    let found = all.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, op)| op).ok_or_else(|| format!("no reduce op named {name}"))
}

fn numbers_of(json: &Value) -> Option<Vec<usize>> {
    json.as_array().map(|numbers| numbers.iter().map(|number| number.as_i64().unwrap_or(0) as usize).collect())
}

fn read_given(json: &Value, dtype: DType) -> Result<Given> {
    let dtype = json["dtype"].as_str().map_or(Ok(dtype), dtype_of)?;
    let shape = numbers_of(&json["shape"]).ok_or("a tensor without a shape")?;
    let mut given = Given { dtype, shape, bytes: Vec::new() };
    if let Some(fill) = json["fill"].as_array() {
        let number = |i: usize| fill[i].as_i64().unwrap_or(0);
        let value = |i: usize| (number(0) * i as i64 + number(1)) % number(2) + number(3);
        for i in 0..given.count() {
            given.bytes.extend(with_element!(dtype, T => T::from_integer(value(i)).to_bytes()));
        }
    } else if let Some(hex) = json["hex"].as_str() {
        let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).map_err(|error| format!("hex: {error}"));
        given.bytes = (0..hex.len()).step_by(2).map(byte).collect::<Result<_>>()?;
    }
    if json["crc32"].is_null() && given.bytes.len() != given.count() * dtype.size() {
        return Err(format!("contents do not fit the shape: {json}"));
    }
    Ok(given)
}

/// One object, or a list of them.
fn tensors_of(json: &Value) -> &[Value] {
    json.as_array().map_or(std::slice::from_ref(json), Vec::as_slice)
}

fn read_part(json: &Value, rank: usize) -> Result<Part> {
    let own = |key: &str| match &json["per_rank"][rank][key] {
        Value::Null => &json[key],
        value => value,
    };
    let mut part = Part {
        op: own("op").as_str().ok_or("a vector without op")?.to_owned(),
        reduce: reduce_of(own("reduce").as_str().unwrap_or("sum"))?,
        root: own("root").as_i64().unwrap_or(0) as usize,
        prescale: own("prescale").as_f64().unwrap_or(1.0),
        postscale: own("postscale").as_f64().unwrap_or(1.0),
        joins: numbers_of(&json["joined"]).is_some_and(|ranks| ranks.contains(&rank)),
        splits: numbers_of(&json["splits"][rank]),
        expect_splits: numbers_of(&json["expect_splits"][rank]),
        ..Part::default()
    };
    let input = &json["input"][rank];
    part.member = !input.is_null() || part.joins;
    if input.is_null() {
        return Ok(part);
    }
    let dtype = dtype_of(json["dtype"].as_str().ok_or("a vector without dtype")?)?;
    for tensor in tensors_of(input) {
        part.input.push(read_given(tensor, dtype)?);
    }
    if !json["expect"].is_null() {
        for tensor in tensors_of(&json["expect"][rank]) {
            let crc32 = tensor["crc32"].as_u64().map(|sum| sum as u32);
            let ulp = tensor["ulp"].as_i64().unwrap_or(0);
            part.expect.push(Expected { given: read_given(tensor, dtype)?, ulp, crc32 });
        }
    }
    Ok(part)
}

fn read_vector(json: &Value) -> Result<Vector> {
    let size = json["size"].as_u64().ok_or("a vector without size")? as usize;
    let texts = json["expect_message_has"].as_array().map_or(&[][..], Vec::as_slice);
    let vector = Vector {
        name: json["name"].as_str().ok_or("a vector without name")?.to_owned(),
        size,
        grouped: json["grouped"].as_bool().unwrap_or(false),
        bitwise: json["bitwise"].as_bool().unwrap_or(false),
        any_joined: !json["joined"].is_null(),
        set: numbers_of(&json["set"]),
        expect_status: json["expect_status"].as_str().map(str::to_owned),
        expect_message_has: texts.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        parts: (0..size).map(|rank| read_part(json, rank)).collect::<Result<_>>()?,
    };
    if json["expect"].is_null() == vector.expect_status.is_none() {
        return Err(format!("{}: expects both or neither", vector.name));
    }
    Ok(vector)
}

pub fn read_vectors(path: &Path) -> Result<Vec<Vector>> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let whole: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let vectors: Vec<_> = whole["vectors"].as_array().ok_or("no vectors")?.iter().map(read_vector).collect::<Result<_>>()?;
    if vectors.is_empty() {
        return Err("no vectors".into());
    }
    Ok(vectors)
}

/// A floating element as a number on a line where neighbours differ by one; none for NaN.
fn place_on_line(bytes: &[u8], mantissa: u32) -> Option<i64> {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    let pattern = u64::from_le_bytes(whole);
    let sign = 1 << (8 * bytes.len() - 1);
    let (magnitude, infinity) = (pattern & (sign - 1), (sign - 1) >> mantissa << mantissa);
    let place = i64::try_from(magnitude).ok().filter(|_| magnitude <= infinity)?;
    Some(if pattern & sign == 0 { place } else { -place })
}

fn close(dtype: DType, wanted: &[u8], got: &[u8], ulp: i64) -> bool {
    let mantissa = match dtype {
        DType::Float16 => 10,
        DType::BFloat16 => 7,
        DType::Float32 => 23,
        DType::Float64 => 52,
        _ => return false,
    };
    match (place_on_line(wanted, mantissa), place_on_line(got, mantissa)) {
        (Some(wanted), Some(got)) => ulp > 0 && wanted.abs_diff(got) <= ulp as u64, // with 0, -0 and 0 differ
        (wanted, got) => wanted == got,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a result differs from what was expected; empty if it does not.
pub fn difference(expected: &Expected, actual: &AnyTensor, bitwise: bool) -> String {
    let given = &expected.given;
    if actual.dtype() != given.dtype || actual.shape() != given.shape {
        return format!("got {} {:?}, expected {} {:?}", actual.dtype(), actual.shape(), given.dtype, given.shape);
    }
    let bytes: Vec<u8> = with_element!(actual.dtype(), T => {
        actual.as_slice::<T>().unwrap_or_default().iter().flat_map(|element| element.to_bytes()).collect()
    });
    if let Some(wanted) = expected.crc32 {
        let found = crc32fast::hash(&bytes);
        let head = &bytes[..bytes.len().min(32)];
        return if found == wanted { String::new() } else { format!("crc32 {found}, begins {}", hex(head)) };
    }
    let size = given.dtype.size();
    for (at, (wanted, got)) in given.bytes.chunks(size).zip(bytes.chunks(size)).enumerate() {
        if wanted != got && (bitwise || !close(given.dtype, wanted, got, expected.ulp)) {
            return format!("element {at} is {}, expected {}", hex(got), hex(wanted));
        }
    }
    String::new()
}
