package passed

// Keep is how long what was seen is kept.
const Keep = keep
