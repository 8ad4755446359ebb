"""Files on disks and in object stores."""
