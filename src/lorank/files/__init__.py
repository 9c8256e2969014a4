"""Files: read once, written whole or not at all, claimed by one process; checksums, and the cache folder."""

from lorank.files.checksums import crc32, sha256, sha256_of_arrays
from lorank.files.locking import Claim, claim, try_claim
from lorank.files.places import cache_folder, size_of
from lorank.files.reading import check_exists, is_stream, kind_of, on_disk, open_input, reading_once
from lorank.files.remote import is_folder, refuse, url_of
from lorank.files.writing import check_writable, replacing, replacing_folder, reserve, write_bytes, write_npz

__all__ = [
    "Claim",
    "cache_folder",
    "check_exists",
    "check_writable",
    "claim",
    "crc32",
    "is_folder",
    "is_stream",
    "kind_of",
    "on_disk",
    "open_input",
    "reading_once",
    "refuse",
    "replacing",
    "replacing_folder",
    "reserve",
    "sha256",
    "sha256_of_arrays",
    "size_of",
    "try_claim",
    "url_of",
    "write_bytes",
    "write_npz",
]
