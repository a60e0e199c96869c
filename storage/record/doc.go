// Package record is the byte format of Kafka's record batches, magic 2: a view over a batch, its checks, the records in
// it in every codec, and a builder. It reads and writes bytes only; it knows no file, no offset of a log and no clock.
//
// A batch is a header of 61 bytes and its records. Integers are big-endian and signed.
//
//	 0  base_offset        int64   offset of the first record; stamped by the broker
//	 8  length             int32   bytes after this field: the batch's size less 12
//	12  leader_epoch       int32   of the leader that appended it; stamped by the broker
//	16  magic              int8    2
//	17  crc                uint32  CRC-32C of all that follows it, from attributes to the end of the batch
//	21  attributes         int16   0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
//	23  last_offset_delta  int32   offset of the last record less base_offset; also the sequences' span
//	27  base_timestamp     int64   what timestamp deltas count from, in ms; with bit 6 the delete horizon
//	35  max_timestamp      int64   the largest of the records; with LogAppendTime that of each record
//	43  producer_id        int64   -1 without idempotence, and so the next two
//	51  producer_epoch     int16
//	53  base_sequence      int32   the producer's number of the first record
//	57  count              int32   records; 0 in a batch that compaction has emptied
//	61  records, one after the other, compressed as a whole by the codec
//
// As the CRC begins at attributes, base_offset and leader_epoch are set without computing it anew.
//
// A record is made of varints (see AppendVarint) and bytes. A length of -1 is null, which differs from 0, empty.
//
//	length           varint   bytes after this field
//	attributes       int8     no bit has a meaning yet
//	timestamp_delta  varlong
//	offset_delta     varint
//	key_length       varint   then the key
//	value_length     varint   then the value
//	header_count     varint   then for each: key length (not null), key, value length, value
//
// Two batches have a form of their own. An end-transaction marker is a control batch of one record whose key says
// commit or abort (see Marker). An empty batch is what compaction keeps of a batch whose records are all gone, for the
// producer's sequences in its header (see AppendEmpty).
//
// Nothing here trusts a length that it reads, and no input from outside makes it panic.
package record
