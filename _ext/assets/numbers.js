/* Numbers can be searched for, such as `14×14`: Sphinx has them in its index, and leaves them out of
   queries. */
{
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    const [, required, , highlighted] = parsed;
    const { terms, titleterms } = Search._index;
    for (const number of query.match(/(?<![\p{L}\p{N}_])\d+(?![\p{L}\p{N}_])/gu) ?? []) {
      if (!Object.hasOwn(terms, number) && !Object.hasOwn(titleterms, number)) continue;
      required.add(number);
      highlighted.add(number);
    }
    return parsed;
  };
}
