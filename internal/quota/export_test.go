package quota

// CountNext is one step of Count.
var CountNext = countNext
