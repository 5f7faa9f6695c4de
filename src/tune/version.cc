// The first source of the layer, until doctor and bench are here.
namespace penstock::tune {
int layer_is_empty = 0;
}  // namespace penstock::tune
