package gateway

// divideDescriptors divides the descriptors that the process may have among data files and connections, so that clients
// cannot take those that the files need. files is how many files are wanted; limit is 0 when there is none, and then so
// is conns, which stands for no bound. http is how many its clients may use. A part is left to what else is open:
// listeners, the lock, the metadata log, directories, files in use beyond their budget.
func divideDescriptors(limit int64, files int, http int64) (fitting int, conns int64) {
	if limit <= 0 {
		return files, 0
	}
	left := max(limit-min(limit/4, 128)-http, 2)
	fitting = int(min(int64(files), left/2))
	return fitting, left - int64(fitting)
}
