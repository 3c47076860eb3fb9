# The smallest disk, of 4 GiB or more, for which all hints hold; $device is the deviceName with links followed.
$hints[0] as $hint
| def is($name; $value): ($hint[$name] // "") == "" or (($value // "") | tostring) == ($hint[$name] | tostring);
  def has($name; $value): ($hint[$name] // "") == "" or (($value // "") | contains($hint[$name]));
  [.blockdevices[]
   | select(.type == "disk" and (.rm | not) and (.ro | not) and .size >= 4294967296)
   | select($device == "" or .path == $device)
   | select(is("hctl"; .hctl) and is("serialNumber"; .serial) and is("wwn"; .wwn))
   | select(has("model"; .model) and has("vendor"; .vendor))
   | select(.size >= ($hint.minSizeGigabytes // 0) * 1000000000)
   | select($hint.rotational == null or .rota == $hint.rotational)]
| sort_by(.size) | first | .path // empty
