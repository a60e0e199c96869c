package wire

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusalOf makes the answer of a request that says nothing but an error: for the whole where the answer has room for
// it, else for each of the things that the request names. Nil when there is none, as for a Produce that wants none.
//
// Differs from Kafka: where an answer calls its list otherwise than the request does, such as that of FindCoordinator,
// it is empty. Kafka: AbstractRequest.getErrorResponse.
func refusalOf(c *call, e *kerr.Error) response {
	if c.message == nil { // an ApiVersions request that could not be read
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = e.Code
		return resp
	}
	if p, ok := c.message.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil
	}
	resp := c.message.ResponseKind()
	resp.SetVersion(c.version)
	refuse(reflect.ValueOf(c.message).Elem(), reflect.ValueOf(resp).Elem(), e.Code)
	return resp
}

// refuse sets the error code in an answer, and makes an element in its lists for each that the request's list of the
// same name has, with the same names and ids.
func refuse(req, resp reflect.Value, code int16) {
	if f := resp.FieldByName("ErrorCode"); f.IsValid() && f.Kind() == reflect.Int16 {
		f.SetInt(int64(code))
	}
	for i := range resp.NumField() {
		to, name := resp.Field(i), resp.Type().Field(i).Name
		from := req.FieldByName(name)
		switch {
		case !from.IsValid() || name == "Version" || name == "UnknownTags" || name == "ErrorCode":
		case to.Kind() == reflect.Slice && from.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Struct && from.Type().Elem().Kind() == reflect.Struct:
			list := reflect.MakeSlice(to.Type(), from.Len(), from.Len())
			for j := range from.Len() {
				if d, ok := list.Index(j).Addr().Interface().(interface{ Default() }); ok {
					d.Default()
				}
				refuse(from.Index(j), list.Index(j), code)
			}
			to.Set(list)
		case to.Type() == from.Type():
			to.Set(from)
		}
	}
}
